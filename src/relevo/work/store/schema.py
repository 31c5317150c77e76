"""The revision a database is at, the one this program needs, and the way from one to the other (alembic)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect, text

from relevo.errors import BadRevision, StoreOutdated, StoreUnknown
from relevo.work.store.database import Database
from relevo.work.store.tables import PREFIX, metadata
from relevo.work.store.views import VIEWS

_LOCK = 0x72656C65766F  # "relevo": one upgrade at a time, however many processes start at once


def head() -> str:
    """The revision this program needs."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


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
    """How tables and views differ from what the program expects, as alembic says it; empty when all is well."""
    async with database.connect() as connection:
        return await connection.run_sync(_differences)


def _options() -> dict[str, Any]:
    """What alembic is told, for migrating and for comparing alike."""
    return {
        "version_table": "relevo_schema",
        "include_name": _is_ours,
        "compare_type": True,
        "render_as_batch": False,
        "transaction_per_migration": False,
    }


def _is_ours(name: str | None, kind: str, _: Any) -> bool:
    """The database may be shared: tables without our prefix are none of our business."""
    return kind != "table" or (name or "").startswith(PREFIX)


def _require_known(revision: str | None) -> None:
    """Refuses tables that a newer program made, or one from before the first release."""
    if revision is not None and revision not in _known():
        raise StoreUnknown(current=revision)


def _known() -> list[str]:
    return sorted(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.set_main_option("path_separator", "os")
    if connection is not None:
        config.attributes.update(connection=connection, options=_options())
    return config


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts=_options()).get_current_revision()


@contextlib.contextmanager
def _without_notes() -> Generator[None]:
    """MariaDB notes of every table that it ignores the name of its primary key, and of every view that there was none to
    replace. Fifty lines would frighten."""

    def tells_more(record: logging.LogRecord) -> bool:
        said = record.getMessage()
        return "ignored for PRIMARY key" not in said and not said.startswith("Unknown VIEW")

    driver = logging.getLogger("asyncmy")
    driver.addFilter(tells_more)
    try:
        yield
    finally:
        driver.removeFilter(tells_more)


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
            with _without_notes():
                command.upgrade(_config(connection), to)
        after = _current(connection)
    except CommandError as error:  # of this, only the name of the revision comes from outside
        raise BadRevision(revision=to, known=", ".join(_known())) from error
    finally:
        if dialect in ("mysql", "mariadb"):
            connection.execute(text("SELECT RELEASE_LOCK('relevo_schema')"))
    assert after is not None
    return before, after


def _differences(connection: Connection) -> list[str]:
    context = MigrationContext.configure(connection, opts=_options())
    tables = [_said(difference) for difference in compare_metadata(context, metadata)]
    return tables + list(_missing_in_views(connection))


def _missing_in_views(connection: Connection) -> Iterator[str]:
    """What is promised of the views, which alembic does not look at. A column more is nobody's loss."""
    known = inspect(connection)
    there = known.get_view_names()
    for view in VIEWS.values():
        if view.name not in there:
            yield f"add_view {view.name}"
            continue
        columns = {column["name"] for column in known.get_columns(view.name)}
        yield from (f"add_column {view.name} {column.name}" for column in view.columns if column.name not in columns)


def _said(difference: Any) -> str:
    """One of alembic's tuples as a line; a column's change comes in a list of its own."""
    parts = cast("tuple[Any, ...]", difference[0] if isinstance(difference, list) else difference)
    return " ".join(str(getattr(part, "name", part)) for part in parts if part is not None)
