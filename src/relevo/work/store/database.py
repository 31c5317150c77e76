"""One database for a URL: SQLAlchemy for the cold paths, and the place where dialects, pragmas and secrets are dealt with.

The hot path (publish, claim, settle) has drivers of its own, see port.py; both see the same tables and the same settings.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from relevo.errors import BadDatabaseUrl, StoreUnavailable
from relevo.work.store import session_timeouts
from relevo.work.store.audit_chain import Chains
from relevo.work.store.interface import Dialect
from relevo.work.store.outage import Outage, is_fault, said

_DIALECTS: dict[str, Dialect] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mariadb",
    "mariadb": "mariadb",
}
_DRIVERS: dict[Dialect, str] = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
    "mariadb": "mysql+asyncmy",
}

BUSY_TIMEOUT_MS = 30_000
PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a commit is on disk when it returns; NORMAL would only promise it to be whole
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA foreign_keys = ON",
)


class FirstWrite:
    """What the next transaction of a task begins with, however often it is tried; see `Database.first_writing`."""

    def __init__(self, write: Callable[[AsyncConnection], Awaitable[None]]) -> None:
        self.write = write
        self.committed = False
        self._task = asyncio.current_task()

    @property
    def is_due(self) -> bool:
        # A task that ours has started has its own business, and its own transactions.
        return not self.committed and asyncio.current_task() is self._task


_first_write: ContextVar[FirstWrite | None] = ContextVar("first_write", default=None)


class Database:
    """A database of work queues.

        database = Database("sqlite:///data/work.db")
        async with database.begin() as connection:      # a transaction that writes
            await connection.execute(insert(tenants).values(...))
        async with database.connect() as connection:    # reading
            rows = await connection.execute(select(tenants))

    On SQLite one process writes one transaction at a time: `begin` waits for its turn instead of for SQLite's busy handler.
    """

    def __init__(self, url: str) -> None:
        self.url = parse(url)
        self.dialect: Dialect = _DIALECTS[self.url.get_backend_name()]
        self.writing = asyncio.Lock()
        """Held by whoever writes to SQLite in this process; nobody takes it elsewhere."""
        self.chains = Chains()
        """Of the audit, for everybody in this process who writes to it."""
        self.outage = Outage()
        """For everybody in this process who asks it."""
        self._engine: AsyncEngine | None = None

    def __repr__(self) -> str:
        return f"Database({self.url.render_as_string(hide_password=True)!r})"

    @property
    def engine(self) -> AsyncEngine:
        if self._engine is None:
            self._engine = self._make_engine(session_timeouts.ANSWER_S)
        return self._engine

    @contextlib.asynccontextmanager
    async def begin(self) -> AsyncGenerator[AsyncConnection]:
        """A transaction that writes; committed at the end of the block, rolled back when it raises. A fault of the store is
        `StoreUnavailable`, here and in `connect`; what concerns the statement or another transaction is the driver's error."""
        first = _first_write.get()
        if first is None or not first.is_due:
            with self._noting(writing=True):
                async with self._begun() as connection:
                    yield connection
            return
        with self._noting(writing=True):
            async with self._begun() as connection:
                await first.write(connection)
                yield connection
        first.committed = True

    @contextlib.contextmanager
    def first_writing(self, write: Callable[[AsyncConnection], Awaitable[None]]) -> Generator[FirstWrite]:
        """Within the block, the first transaction of this task begins with `write`: both are committed, or neither is."""
        first = FirstWrite(write)
        token = _first_write.set(first)
        try:
            yield first
        finally:
            _first_write.reset(token)

    @contextlib.asynccontextmanager
    async def begin_unhurried(self) -> AsyncGenerator[AsyncConnection]:
        """As `begin`, for statements that may take minutes: tables that are changed."""
        if self.dialect == "sqlite":
            async with self.begin() as connection:
                yield connection
            return
        engine = self._make_engine(answer_s=None)
        try:
            with self._noting(writing=True):
                async with engine.begin() as connection:
                    yield connection
        finally:
            await engine.dispose()

    @contextlib.asynccontextmanager
    async def _begun(self) -> AsyncGenerator[AsyncConnection]:
        if self.dialect != "sqlite":
            async with self.engine.begin() as connection:
                yield connection
            return
        async with self.writing, self.engine.execution_options(relevo_writes=True).begin() as connection:
            yield connection

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncGenerator[AsyncConnection]:
        """A connection to read with: one snapshot on SQLite, read committed elsewhere."""
        with self._noting(writing=False):
            async with self.engine.connect() as connection:
                yield connection

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[AsyncConnection]:
        """A connection to read with whose statements all see the same moment."""
        async with self.connect() as connection:
            if self.dialect != "sqlite":
                await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextlib.contextmanager
    def _noting(self, *, writing: bool) -> Generator[None]:
        try:
            yield
        except Exception as error:
            if is_fault(error):
                raise self.outage.met(error, writing=writing) from error
            raise
        self.outage.answered(writing=writing)

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    def _make_engine(self, answer_s: float | None) -> AsyncEngine:
        url = self.url.set(drivername=_DRIVERS[self.dialect])
        if self.dialect == "sqlite":
            path = sqlite_path(self.url)
            path.parent.mkdir(parents=True, exist_ok=True)
            engine = create_async_engine(url)
            event.listen(engine.sync_engine, "connect", _prepare_sqlite)
            event.listen(engine.sync_engine, "begin", _begin_sqlite)
            return engine
        options: dict[str, Any] = {"pool_size": 5, "max_overflow": 10, "pool_pre_ping": True}
        options["pool_timeout"] = session_timeouts.ANSWER_S
        if self.dialect == "postgresql":
            options["connect_args"] = {
                "server_settings": session_timeouts.for_postgres(),
                "timeout": session_timeouts.CONNECT_S,
                "command_timeout": answer_s,
            }
        else:
            options["connect_args"] = {
                "init_command": session_timeouts.for_mariadb(),
                "connect_timeout": session_timeouts.CONNECT_S,
                "read_timeout": answer_s,
            }
        engine = create_async_engine(url, isolation_level="READ COMMITTED", **options)
        event.listen(engine.sync_engine, "connect", _watch)
        return engine


def parse(url: str) -> URL:
    """A URL without a driver's name; raises `BadDatabaseUrl`.

    >>> parse("postgres://relevo:secret@127.0.0.1/work").render_as_string(hide_password=True)
    'postgresql://relevo:***@127.0.0.1/work'
    """
    try:
        made = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise BadDatabaseUrl(url="(unreadable)", reason="it is not a URL") from error
    dialect = _DIALECTS.get(made.get_backend_name())
    shown = made.render_as_string(hide_password=True)
    if dialect is None:
        raise BadDatabaseUrl(url=shown, reason=f"there is no driver for {made.get_backend_name()!r}")
    if not made.database or made.database == ":memory:":
        raise BadDatabaseUrl(url=shown, reason="it names no database")
    return made.set(drivername=dialect)


@contextlib.contextmanager
def answering() -> Generator[None]:
    """What the database's driver complains about in this block is told in one sentence: `StoreUnavailable`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, SQLAlchemyError) or is_fault(error):
            raise StoreUnavailable(reason=said(error)) from error
        raise


def sqlite_path(url: URL) -> Path:
    return Path(url.database or "")


def _watch(connection: Any, _: Any) -> None:
    session_timeouts.watch(connection.driver_connection)


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # BEGIN is ours to send
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    # A transaction that reads first and writes later can fail in the middle when another wrote in between: a writer says so.
    writes = connection.get_execution_options().get("relevo_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
