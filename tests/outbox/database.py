"""A database of one test, used through SQLAlchemy as an application would: with or without asyncio."""

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Row, create_engine, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from relevo import Job, Task
from relevo.outbox import Outbox, OutboxTable


class Database:
    """An engine and the outbox's table in it."""

    def __init__(self, url: str, table: OutboxTable, *, uses_asyncio: bool) -> None:
        self.url = url
        self.table = table
        self.uses_asyncio = uses_asyncio
        self.engine: Engine | AsyncEngine = create_async_engine(url) if uses_asyncio else create_engine(url)

    async def create(self) -> None:
        await done(self.table.create(self.engine))

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Any]:
        """A session in a transaction that is committed at the end, and rolled back after an exception."""
        if isinstance(self.engine, AsyncEngine):
            async with AsyncSession(self.engine) as session, session.begin():
                yield session
        else:
            with Session(self.engine) as session, session.begin():
                yield session

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection | AsyncConnection]:
        """As `session`, a step lower."""
        if isinstance(self.engine, AsyncEngine):
            async with self.engine.begin() as connection:
                yield connection
        else:
            with self.engine.begin() as connection:
                yield connection

    async def execute(self, statement: Any) -> Any:
        async with self.connection() as connection:
            return await done(connection.execute(statement))

    async def rows(self) -> list[Row[Any]]:
        """What is in the outbox."""
        return list(await self.execute(select(self.table.table).order_by(self.table.table.c.seq)))

    async def close(self) -> None:
        async with self.connection() as connection:
            if isinstance(connection, AsyncConnection):
                await connection.run_sync(self.table.table.drop)
            else:
                self.table.table.drop(connection)
        await done(self.engine.dispose())


class Author:
    """`Outbox` for both worlds: awaits what has to be awaited, so that a test is written once."""

    def __init__(self, outbox: Outbox) -> None:
        self._add: Callable[..., Any] = outbox.add
        self._enqueue: Callable[..., Any] = outbox.enqueue

    async def add(self, place: Any, queue_name: str, name: str, data: Any, **options: Any) -> Job:
        return await done(self._add(place, queue_name, name, data, **options))

    async def enqueue(self, place: Any, queue_name: str, task: Task[Any, Any], *args: Any, **kwargs: Any) -> Job:
        return await done(self._enqueue(place, queue_name, task, *args, **kwargs))


async def done(value: object) -> Any:
    """The value, awaited where it has to be."""
    return await value if inspect.isawaitable(value) else value
