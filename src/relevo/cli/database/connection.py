"""The database of work queues: the option that names it, and how a command opens it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from relevo.errors import DependencyMissing

if TYPE_CHECKING:
    from relevo.work.store.database import Database

T = TypeVar("T")

DEFAULT_DATABASE = "sqlite:///data/work.db"

DatabaseUrl = Annotated[
    str,
    typer.Option(
        envvar="RELEVO_DATABASE_URL", help="sqlite:///path, mariadb://user:password@host/name or postgresql://…"
    ),
]


def ask_database(url: str, question: Callable[[Database], Awaitable[T]]) -> T:
    """Opens the database of a URL, asks it, and closes it."""

    async def asked() -> T:
        async with _opened(url) as database:
            return await question(database)

    return asyncio.run(asked())


@asynccontextmanager
async def _opened(url: str) -> AsyncGenerator[Database]:
    """The database of a URL for as long as the block runs; one that does not answer is a sentence, no traceback."""
    try:
        from relevo.work.store.database import Database, answering
    except ImportError as error:
        raise DependencyMissing(what="this command", package=error.name or "", extra="relevo[server]") from error
    database = Database(url)
    try:
        with answering():
            yield database
    finally:
        await database.close()
