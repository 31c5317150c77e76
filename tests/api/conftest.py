"""Fixtures of the HTTP tests."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.servers.stores import sqlite_with_tables
from tests.support.room import Room, served


@pytest.fixture
async def database_url(tmp_path: Path) -> str:
    """A SQLite file with all tables and nothing in them."""
    return await sqlite_with_tables(tmp_path / "work.db")


@pytest.fixture
async def room(database_url: str) -> AsyncGenerator[Room]:
    """A served room on SQLite, without Redis and without agents: nothing happens but what the test does."""
    async with served(database_url) as room:
        yield room
