"""Altering the tables, and comparing them with what the program expects: all that needs alembic.

Loading alembic takes a fifth of the time in which `relevo serve` starts, so schema.py loads this file only for a database that
is not yet as it should be.
"""

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
from alembic.util import CommandError
from sqlalchemy import Connection, inspect

from relevo.errors import BadRevision
from relevo.work.store.tables import PREFIX, metadata
from relevo.work.store.views import VIEWS


def alter(connection: Connection, to: str, *, version_table: str, known: tuple[str, ...]) -> None:
    """Brings the database to a revision."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, options=_options(version_table))
    try:
        with _without_notes():
            command.upgrade(config, to)
    except CommandError as error:  # of this, only the name of the revision comes from outside
        raise BadRevision(revision=to, known=", ".join(known)) from error


def differences(connection: Connection, *, version_table: str) -> list[str]:
    """How tables and views differ from what the program expects, as alembic says it."""
    context = MigrationContext.configure(connection, opts=_options(version_table))
    tables = [_said(difference) for difference in compare_metadata(context, metadata)]
    return tables + list(_missing_in_views(connection))


def _options(version_table: str) -> dict[str, Any]:
    """What alembic is told, for altering and for comparing alike."""
    return {
        "version_table": version_table,
        "include_name": _is_ours,
        "compare_type": True,
        "render_as_batch": False,
        "transaction_per_migration": False,
    }


def _is_ours(name: str | None, kind: str, _: Any) -> bool:
    """The database may be shared: tables without our prefix are none of our business."""
    return kind != "table" or (name or "").startswith(PREFIX)


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
