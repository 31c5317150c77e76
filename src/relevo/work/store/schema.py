"""The revision a database is at, the one this program needs, and the way from one to the other."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from relevo.errors import StoreOutdated, StoreUnknown
from relevo.work.store.database import Database

REVISIONS = ("0001",)
"""Those of migrations/versions, the oldest first: known without asking alembic, which takes long to load."""

_VERSION_TABLE = "relevo_schema"
_LOCK = 0x72656C65766F  # "relevo": one upgrade at a time, however many processes start at once


def head() -> str:
    """The revision this program needs."""
    return REVISIONS[-1]


async def current(database: Database) -> str | None:
    """The revision the database is at; None when it has no tables of ours."""
    async with database.connect() as connection:
        return await connection.run_sync(_current)


async def upgrade(database: Database, to: str = "head") -> tuple[str | None, str]:
    """Brings the database to a revision, and says from where to where. Does nothing when it is there already."""
    async with database.begin_unhurried() as connection:
        return await connection.run_sync(_upgrade, to)


async def require_head(database: Database) -> None:
    """Refuses to work on tables of another time."""
    found, wanted = await current(database), head()
    _require_known(found)
    if found != wanted:
        raise StoreOutdated(current=found or "none", wanted=wanted)


async def differences(database: Database) -> list[str]:
    """How tables and views differ from what the program expects; empty when all is well."""
    from relevo.work.store import alteration

    async with database.connect() as connection:
        return await connection.run_sync(lambda each: alteration.differences(each, version_table=_VERSION_TABLE))


def _require_known(revision: str | None) -> None:
    """Refuses tables that a newer program made, or one from before the first release."""
    if revision is not None and revision not in REVISIONS:
        raise StoreUnknown(current=revision)


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()  # noqa: S608 - our own name


def _upgrade(connection: Connection, to: str) -> tuple[str | None, str]:
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = 0"))  # however long the one before us takes
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    elif dialect in ("mysql", "mariadb"):  # DDL ends transactions there, so the lock is the session's
        connection.execute(text("SELECT GET_LOCK('relevo_schema', 600)"))
    try:
        before = _current(connection)
        _require_known(before)
        if before != head() or to != "head":
            from relevo.work.store import alteration

            alteration.alter(connection, to, version_table=_VERSION_TABLE, known=REVISIONS)
        after = _current(connection)
    finally:
        if dialect in ("mysql", "mariadb"):
            connection.execute(text("SELECT RELEASE_LOCK('relevo_schema')"))
    assert after is not None
    return before, after
