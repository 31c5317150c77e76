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
