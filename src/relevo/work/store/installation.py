"""What an installation keeps about itself: its id, made once, which names its keys in Redis; and when it was last ready."""

from __future__ import annotations

import contextlib
import secrets

from sqlalchemy import insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from relevo.errors import StoreOutdated, StoreUnavailable
from relevo.work.store.database import Database
from relevo.work.store.tables import settings

_NAME, _READY = "installation", "ready_at"


async def installation_id(database: Database) -> str:
    """The id, made now if this is a new database. Two databases never share one, so they may share a Redis."""
    query = select(settings.c.value).where(settings.c.name == _NAME)
    try:
        async with database.connect() as connection:
            known = (await connection.execute(query)).scalar_one_or_none()
        if known is not None:
            return known
        with contextlib.suppress(IntegrityError):  # another process was faster
            async with database.begin() as connection:
                await connection.execute(insert(settings).values(name=_NAME, value=secrets.token_hex(4)))
        async with database.connect() as connection:
            return (await connection.execute(query)).scalar_one()
    except DBAPIError as error:
        said = str(error.orig).splitlines()[0]
        if settings.name in said:  # there is no such table
            raise StoreOutdated(current="none", wanted="the tables of work queues") from error
        raise StoreUnavailable(reason=said) from error


async def write_a_row(database: Database, now_ms: int) -> None:
    """The honest test of a store: it takes a row, to disk."""
    change = update(settings).where(settings.c.name == _READY).values(value=str(now_ms))
    async with database.begin() as connection:
        if (await connection.execute(change)).rowcount == 0:
            await connection.execute(insert(settings).values(name=_READY, value=str(now_ms)))
