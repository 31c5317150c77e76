"""The database of the work queues, for a task of Spark: a connection that waits, and errors that name no password."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from relevo.errors import BadArgument, ServerRefused

_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}


@contextmanager
def opened(url: URL) -> Generator[Connection]:
    """A connection for the length of a block."""
    engine = create_engine(url)
    try:
        connection = engine.connect()
    except DBAPIError as error:
        engine.dispose()
        where = engine.url.render_as_string(hide_password=True)
        raise ServerRefused(command=f"a connection to {where}", reason=str(error.orig)) from None
    try:
        yield connection
    finally:
        connection.close()
        engine.dispose()


def url_of(given: Mapping[str, str]) -> URL:
    """The address with a driver that waits: the work queues' own are for asyncio."""
    text = given.get("url", "") or os.environ.get(given.get("urlenv", ""), "")
    if not text and (file := given.get("urlfile")):
        text = Path(file).read_text().strip()
    try:
        url = make_url(text)
    except ArgumentError:
        remedy = "Write sqlite:///file, postgresql://host/name or mariadb://host/name in `url`, `urlEnv` or `urlFile`."
        raise BadArgument(
            argument="url", value="...", reason="it is not the address of a database", remedy=remedy
        ) from None
    driver = _DRIVERS.get(url.get_backend_name())
    if driver is None:
        remedy = f"Use one of {', '.join(_DRIVERS)}."
        raise BadArgument(argument="url", value=url.get_backend_name(), reason="unknown database", remedy=remedy)
    return url.set(drivername=driver)
