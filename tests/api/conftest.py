"""Fixtures of the HTTP tests."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.api.room import EmptyDatabase, Room, served


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> EmptyDatabase:
    return EmptyDatabase(tmp_path_factory.mktemp("migrated"))


@pytest.fixture
async def database_url(empty_database: EmptyDatabase, tmp_path: Path) -> str:
    """A SQLite file with all tables and nothing in them."""
    return await empty_database.copy_to(tmp_path / "work.db")


@pytest.fixture
async def room(database_url: str) -> AsyncGenerator[Room]:
    """A served room on SQLite, without Redis and without agents: nothing happens but what the test does."""
    async with served(database_url) as room:
        yield room
