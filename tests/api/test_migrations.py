"""The migrations make exactly the tables the program works with, on every database."""

import sys
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, Connection, MetaData, inspect, text
from sqlalchemy.exc import DBAPIError

from relevo.errors import StoreOutdated, StoreUnknown
from relevo.work.store import alteration, schema
from relevo.work.store.database import Database
from relevo.work.store.migrations import tables_0001
from relevo.work.store.tables import messages, metadata, tenants
from tests.servers.child import Child
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer
from tests.support.serve_process import sqlite_in

STORES = ("sqlite", "postgresql", "mariadb")


@pytest.fixture(params=STORES)
async def empty(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Database]:
    """A database without tables, one of each kind."""
    name = f"m{uuid.uuid4().hex[:12]}"
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/work.db"
    elif request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        postgres.create(name)
        url = postgres.url("asyncpg", name)
    else:
        mariadb: MariaDbServer = request.getfixturevalue("mariadb")
        mariadb.create(name)
        url = mariadb.url("asyncmy", name)
    database = Database(url)
    yield database
    await database.close()


def test_the_revisions_are_those_of_the_migrations_folder() -> None:
    folder = Path(alteration.__file__).with_name("migrations")
    walked = ScriptDirectory(str(folder)).walk_revisions()
    assert tuple(reversed([script.revision for script in walked])) == schema.REVISIONS


def test_a_start_on_tables_as_they_should_be_does_not_load_alembic(tmp_path: Path) -> None:
    """Each command and each `relevo serve` would be slower for it."""
    url = sqlite_in(tmp_path)
    program = f"""
import asyncio, sys
from relevo.api.service import prepare
asyncio.run(prepare({url!r}))
print("alembic" in sys.modules)
"""
    first, second = (Child.run(sys.executable, "-c", program) for _ in range(2))
    assert (first.out, second.out) == ("True\n", "False\n"), first.err + second.err


async def test_the_migrations_make_the_tables_of_the_program(empty: Database) -> None:
    assert await schema.upgrade(empty) == (None, schema.head())
    assert await schema.differences(empty) == []


async def test_an_upgrade_of_what_is_up_to_date_changes_nothing(empty: Database) -> None:
    await schema.upgrade(empty)
    assert await schema.upgrade(empty) == (schema.head(), schema.head())
    await schema.require_head(empty)


async def test_a_database_without_tables_is_named_outdated(empty: Database) -> None:
    with pytest.raises(StoreOutdated, match="relevo db upgrade"):
        await schema.require_head(empty)


async def test_tables_of_another_version_are_left_alone(empty: Database) -> None:
    await schema.upgrade(empty)
    async with empty.begin() as connection:
        await connection.execute(text("UPDATE relevo_schema SET version_num = '9999'"))
    with pytest.raises(StoreUnknown, match="9999"):
        await schema.upgrade(empty)
    with pytest.raises(StoreUnknown, match="9999"):
        await schema.require_head(empty)


async def test_an_upgrade_that_was_cut_short_goes_on(empty: Database) -> None:
    """MariaDB commits after each table: who is killed leaves some of them."""
    async with empty.begin() as connection:
        await connection.run_sync(lambda sync: metadata.create_all(sync, tables=[messages, tenants]))
    assert await schema.upgrade(empty) == (None, schema.head())
    assert await schema.differences(empty) == []


async def test_a_missing_index_is_found(empty: Database) -> None:
    await schema.upgrade(empty)
    on = " ON relevo_store_messages" if empty.dialect == "mariadb" else ""
    async with empty.begin() as connection:
        await connection.execute(text(f"DROP INDEX ix_relevo_messages_queue{on}"))
    assert await schema.differences(empty) == ["add_index ix_relevo_messages_queue"]


async def test_a_missing_view_is_found(empty: Database) -> None:
    await schema.upgrade(empty)
    async with empty.begin() as connection:
        await connection.execute(text("DROP VIEW relevo_usage"))
        await connection.execute(text("DROP VIEW relevo_audit_chains"))
        await connection.execute(text("CREATE VIEW relevo_audit_chains AS SELECT chain FROM relevo_store_audit_chains"))
    lost = ["last_no", "last_hash", "cut_no", "cut_hash"]
    assert await schema.differences(empty) == [
        "add_view relevo_usage",
        *(f"add_column relevo_audit_chains {name}" for name in lost),
    ]


async def test_the_database_refuses_what_no_row_can_say(empty: Database) -> None:
    """States that there are none of, and counts below zero."""
    await schema.upgrade(empty)

    def found(connection: Connection) -> dict[str, set[str | None]]:
        known = inspect(connection)
        return {name: {each["name"] for each in known.get_check_constraints(name)} for name in known.get_table_names()}

    async with empty.connect() as connection:
        there = await connection.run_sync(found)
    for name, checks in _checks(metadata).items():
        assert checks.keys() <= there[name], name
    async with empty.begin() as connection:
        await connection.execute(text(_TENANT))
    for change in ("state = 'done'", "max_retries = -1", "ordering = 'any'"):
        with pytest.raises(DBAPIError, match=f"ck_relevo_store_queues_{change.split()[0]}"):
            await _replace_a_queue(empty, change)
    await _replace_a_queue(empty, "state = 'paused'")


def test_the_first_step_checks_what_the_program_knows() -> None:
    assert _checks(metadata) == _checks(tables_0001.metadata)
    assert sum(map(len, _checks(metadata).values())) > 20


def _checks(tables: MetaData) -> dict[str, dict[str, str]]:
    """Name and condition of every check, by table."""
    return {
        table.name: {
            str(each.name): str(each.sqltext) for each in table.constraints if isinstance(each, CheckConstraint)
        }
        for table in tables.sorted_tables
    }


async def _replace_a_queue(database: Database, change: str) -> None:
    """Writes a queue as `change` says, and takes it back."""
    async with database.engine.connect() as connection, connection.begin() as transaction:
        for statement in (*_QUEUE, f"UPDATE relevo_store_queues SET {change}"):  # noqa: S608
            await connection.execute(text(statement))
        await transaction.rollback()


_TENANT = (
    "INSERT INTO relevo_store_tenants (id, slug, display_name, state, created_at) VALUES (1, 'a', 'a', 'active', 0)"
)
_QUEUE = (
    """
    INSERT INTO relevo_store_scopes
        (id, tenant_id, slug, display_name, description, state, events_to_queue, audit_to_queue, created_at, updated_at)
    VALUES (1, 1, 's', 's', '', 'active', '[]', 0, 0, 0)
    """,
    """
    INSERT INTO relevo_store_queues
        (id, tenant_id, scope_id, slug, display_name, description, state, ordering, consumer_mode, visibility_timeout_s,
        max_retries, backoff_initial_ms, backoff_multiplier, backoff_cap_ms, backoff_jitter_ms, max_reclaims,
        overflow_policy, dead_letter_expired, aging_crosses_tiers, system, created_at, updated_at)
    VALUES (1, 1, 1, 'q', 'q', '', 'active', 'fifo', 'competing', 30, 3, 0, '2', 0, 0, 3, 'reject', 0, 0, 0, 0, 0)
    """,
)


async def test_no_text_is_compared_by_the_rules_of_a_language(empty: Database) -> None:
    """Nor with spaces filled up: keys, slugs, labels, tokens and whatever is added to them one day."""
    await schema.upgrade(empty)
    async with empty.connect() as connection:
        rows = (await connection.execute(text(_TEXT_COLUMNS[empty.dialect]))).all()
    assert len(rows) > 150
    assert [tuple(row) for row in rows if row[2] not in _BYTE_BY_BYTE[empty.dialect]] == []


_BYTE_BY_BYTE = {
    "sqlite": {"BINARY"},
    "postgresql": {"C"},
    "mariadb": {"utf8mb4_nopad_bin", "ascii_nopad_bin"},
}
_TEXT_COLUMNS = {
    "sqlite": """
        SELECT t.name, c.name, CASE WHEN t.sql LIKE '%COLLATE%' THEN 'another' ELSE 'BINARY' END
        FROM sqlite_master AS t, pragma_table_info(t.name) AS c
        WHERE t.type IN ('table', 'view') AND t.name LIKE 'relevo~_%' ESCAPE '~' AND c.type NOT LIKE '%INT%'
    """,
    "postgresql": """
        SELECT r.relname, a.attname, c.collname
        FROM pg_attribute AS a
        JOIN pg_class AS r ON r.oid = a.attrelid AND r.relkind IN ('r', 'v')
        JOIN pg_collation AS c ON c.oid = a.attcollation
        WHERE r.relname LIKE 'relevo~_%' ESCAPE '~' AND r.relname <> 'relevo_schema'
    """,
    "mariadb": """
        SELECT table_name, column_name, collation_name
        FROM information_schema.columns
        WHERE table_schema = DATABASE() AND collation_name IS NOT NULL AND table_name <> 'relevo_schema'
    """,
}
"""Table or view, name and collation of every column of text. `relevo_schema` is alembic's own: one row."""
