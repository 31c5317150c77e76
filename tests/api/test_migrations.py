"""The migrations make exactly the tables the program works with, on every database."""

import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import text

from relevo.errors import StoreOutdated, StoreUnknown
from relevo.work.store import schema
from relevo.work.store.database import Database
from relevo.work.store.tables import messages, metadata, tenants
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer

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
    on = " ON relevo_messages" if empty.dialect == "mariadb" else ""
    async with empty.begin() as connection:
        await connection.execute(text(f"DROP INDEX ix_relevo_messages_scope{on}"))
    assert await schema.differences(empty) == ["add_index ix_relevo_messages_scope"]


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
        WHERE t.type = 'table' AND t.name LIKE 'relevo~_%' ESCAPE '~' AND c.type NOT LIKE '%INT%'
    """,
    "postgresql": """
        SELECT r.relname, a.attname, c.collname
        FROM pg_attribute AS a
        JOIN pg_class AS r ON r.oid = a.attrelid AND r.relkind = 'r'
        JOIN pg_collation AS c ON c.oid = a.attcollation
        WHERE r.relname LIKE 'relevo~_%' ESCAPE '~' AND r.relname <> 'relevo_schema'
    """,
    "mariadb": """
        SELECT table_name, column_name, collation_name
        FROM information_schema.columns
        WHERE table_schema = DATABASE() AND collation_name IS NOT NULL AND table_name <> 'relevo_schema'
    """,
}
"""Table, name and collation of every column of text. `relevo_schema` is alembic's own: one row."""
