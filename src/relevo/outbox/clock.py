"""The database's clock in epoch milliseconds: relays on machines whose clocks differ agree on it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class now_ms(FunctionElement[int]):  # noqa: N801 - reads like the SQL function it is
    """The time at which the database evaluates it."""

    type = BigInteger()
    inherit_cache = True
    name = "now_ms"


@compiles(now_ms, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    # Not now(): that is when the transaction began.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(now_ms, "mysql")
@compiles(now_ms, "mariadb")
def _mysql(*_: Any, **__: Any) -> str:
    # Not UNIX_TIMESTAMP(...): it reads a local time, and in the hour that comes twice in autumn it cannot tell which is meant.
    return "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)"


@compiles(now_ms, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    # unixepoch('subsec') came with SQLite 3.42; the Julian day has been there for ever, and is exact to the millisecond.
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
