"""How long a transaction may stand still, how long another waits for its locks, and how long we wait for the database.

A node that dies without a word (a power cut, a pulled cable, a stopped virtual machine) leaves its transactions open: the
database learns of it from TCP after minutes or hours, and until then its locks hold up everybody who wants the same rows. So
each connection tells the database to end its transaction when it has been idle for `IDLE_S`. Who waits for a lock waits longer
than that, so the death of a node delays requests, and fails none; what waits for even longer is refused (503) instead of
piling up. SQLite has one process, whose locks end with it.

A program of ours that stands still for longer within a transaction, as on a machine with far too much to do, loses it too,
as if it had been killed there: nothing is written, and the transaction runs once more. Whoever stands still again is told so.

A network that drops packets ends no connection. The kernel gives up one whose packets nobody confirms, and one that has been
idle is asked; what confirms and never answers (a stopped server, a proxy) is given up after `ANSWER_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from relevo.broker.keepalive import keep_alive

IDLE_S = 10
LOCK_S = 20
ANSWER_S = 30.0
"""How long a statement, or a whole transaction of the hot path, may take: longer than anybody waits for a lock."""
CONNECT_S = 10.0
CLOSE_S = 5.0
"""How long a connection may take to say goodbye."""


def for_postgres() -> dict[str, str]:
    """Settings of a session, as asyncpg takes them."""
    return {
        "lock_timeout": f"{LOCK_S * 1000}",
        "idle_in_transaction_session_timeout": f"{IDLE_S * 1000}",
    }


def for_mariadb() -> str:
    """The same as one statement."""
    return f"SET SESSION innodb_lock_wait_timeout = {LOCK_S}, SESSION idle_transaction_timeout = {IDLE_S}"


def watch(connection: Any) -> None:
    """Lets the kernel notice that the other side of a driver's connection is gone."""
    transport = getattr(connection, "_transport", None)  # neither asyncpg nor asyncmy has another way to its socket
    found = None if transport is None else transport.get_extra_info("socket")
    if found is not None:
        keep_alive(found)


class Deadline:
    """Ends a connection that has not answered within `ANSWER_S` of entering: what waits for it fails at once."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._timer: asyncio.TimerHandle | None = None
        self.passed = False

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(ANSWER_S, self._over)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _over(self) -> None:
        self.passed = True
        self._end()


def overdue() -> TimeoutError:
    return TimeoutError(f"no answer within {ANSWER_S:g} s")
