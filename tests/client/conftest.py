"""Fixtures of the client's tests: a served room, and clients that hold its key."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from relevo.client import AsyncClient
from tests.servers.stores import sqlite_with_tables
from tests.support.room import Room, served


@pytest.fixture
async def room(tmp_path: Path) -> AsyncGenerator[Room]:
    """A served room on SQLite with the scope `billing` and the queue `invoices`; agents run, as they do by default."""
    async with served(await sqlite_with_tables(tmp_path / "work.db"), agents=True) as room:
        yield room


@pytest.fixture
async def client(room: Room) -> AsyncGenerator[AsyncClient]:
    async with AsyncClient(room.service.url, key=room.key) as client:
        yield client
