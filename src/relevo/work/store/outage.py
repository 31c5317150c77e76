"""When the store fails, and not we: which errors of a driver say so, and what is told of it.

A database that is killed, restarted, demoted, full or silent fails in many words, each driver's own. All of them are
`StoreUnavailable` to whoever asked: nothing was wrong with the request, and the same one will work later. The log has one line
when such a time begins and one when it is over, however many requests it met.
"""

from __future__ import annotations

import logging
import sqlite3
import time

from sqlalchemy.exc import DBAPIError, PendingRollbackError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from relevo.errors import StoreUnavailable

log = logging.getLogger("relevo.store")

QUIET_S = 2.0
"""Answers count as the end of an outage when nothing has failed for so long: while some connections are dead, or rows can be
read and not written, answers and failures come by turns."""

LONGEST_WAIT_S = 15
"""What the others are told to wait at most, however long it has lasted."""

# Classes of SQLSTATE: connection, resources (a full disk among them), operator's doing, system, passwords, no such database,
# damaged; and single ones: read-only, a transaction that stood still for too long.
_STATES = ("08", "53", "57", "58", "28", "3D", "XX")
_STATE = frozenset({"25006", "25P03", "25P04"})
# Full, out of memory or connections, shut down, damaged or closed by the network, killed, read-only, no right to come in.
_MARIADB = frozenset(
    {1021, 1026, 1030, 1037, 1038, 1040, 1041, 1042, 1043, 1044, 1045, 1049, 1053, 1077, 1079, 1080, 1114, 1129, 1130}
    | {1152, 1158, 1159, 1160, 1161, 1180, 1181, 1184, 1203, 1226, 1290, 1317, 1698, 1792, 1836, 1927, 1969}
)
_SQLITE = frozenset(
    {sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT}
    | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOTADB}
)


def is_fault(error: BaseException | None) -> bool:
    """Whether the store is why: not the statement, its values, or another transaction's lock."""
    if error is None:
        return False
    if isinstance(error, OSError | PoolTimeout | PendingRollbackError):  # the last: its connection was lost before
        return True
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or is_fault(error.orig)
    if isinstance(error, sqlite3.Error):
        return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _SQLITE
    driver, kind = type(error).__module__.partition(".")[0], type(error).__name__
    if driver == "asyncmy":
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        return code in _MARIADB or 2000 <= code < 3000 or (code < 1000 and kind in ("InterfaceError", "InternalError"))
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return state.startswith(_STATES) or state in _STATE
    if driver == "asyncpg":
        return kind != "DataError" and any(each.__name__ == "InterfaceError" for each in type(error).__mro__)
    return is_fault(error.__cause__) if driver == "sqlalchemy" else False  # a driver's error in SQLAlchemy's words


def said(error: BaseException) -> str:
    """What the database said, without the statement and its values, which may be anybody's data."""
    told = getattr(error, "orig", None) or error
    told = told.args[-1] if type(told).__module__.startswith("asyncmy") and told.args else told
    lines = "" if isinstance(error, SQLAlchemyError) and told is error else str(told).strip()
    return (lines.splitlines() or [type(error).__name__])[0][:300]


class Outage:
    """Of one database, as this process meets it: since when it lasts, if it does."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._last = 0.0
        self._refused = 0
        self._of_writes = False

    def met(self, error: BaseException, *, writing: bool) -> StoreUnavailable:
        """What to raise after this fault. The first of an outage is logged."""
        now = time.monotonic()
        self._last = now
        self._refused += 1
        self._of_writes |= writing
        if self._since is None:
            self._since = now
            log.warning("the database does not answer: %s", said(error))
        return StoreUnavailable(reason=said(error), wait_s=self._wait_s(now))

    def answered(self, *, writing: bool) -> None:
        """After all that worked; nothing to do when all has worked before."""
        if self._since is None or (self._of_writes and not writing):
            return
        now = time.monotonic()
        if now - self._last < QUIET_S:
            return
        log.warning("the database answers again, after %.1f s: %d calls failed", now - self._since, self._refused)
        self._since, self._refused, self._of_writes = None, 0, False

    def _wait_s(self, now: float) -> int:
        """A quarter of what it has lasted: a restart is over in seconds, and what has lasted for minutes will go on."""
        lasted = 0.0 if self._since is None else now - self._since
        return max(1, min(int(lasted / 4), LONGEST_WAIT_S))
