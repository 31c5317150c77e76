"""The outbox's suite runs on every database, with and without asyncio; its jobs go to the embedded server."""

import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol

import pytest

from relevo import Queue
from relevo.outbox import Outbox, OutboxRelay, OutboxTable
from tests.outbox.database import Author, Database
from tests.servers.postgres import PostgresServer
from tests.servers.server import Server


class RelayOf(Protocol):
    """`relay_of(**options)`: a relay on the test's database, not started; closed at the end of the test."""

    def __call__(self, **options: Any) -> OutboxRelay: ...


@pytest.fixture(params=["sqlite-sync", "sqlite-async", "postgres-sync", "postgres-async"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Database]:
    kind, _, style = request.param.partition("-")
    if kind == "sqlite":
        driver = "sqlite+aiosqlite" if style == "async" else "sqlite"
        url = f"{driver}:///{tmp_path / 'app.db'}"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url("asyncpg" if style == "async" else "psycopg")
    table = OutboxTable(name=f"outbox_{uuid.uuid4().hex[:12]}")
    database = Database(url, table, uses_asyncio=style == "async")
    await database.create()
    yield database
    await database.close()


@pytest.fixture
def outbox(database: Database) -> Author:
    return Author(Outbox(database.table))


@pytest.fixture
async def relay_of(database: Database, valkey: Server) -> AsyncGenerator[RelayOf]:
    made: list[OutboxRelay] = []

    def make(**options: Any) -> OutboxRelay:
        settings: dict[str, Any] = {"redis_url": valkey.url, **options}
        relay = OutboxRelay(database.engine, database.table, **settings)
        made.append(relay)
        return relay

    yield make
    for relay in made:
        await relay.close()


@pytest.fixture
def relay(relay_of: RelayOf) -> OutboxRelay:
    return relay_of()


@pytest.fixture
async def queue(valkey: Server, queue_name: str) -> AsyncGenerator[Queue]:
    async with Queue(queue_name, redis_url=valkey.url) as queue:
        yield queue
