"""The outbox's suite runs on every database, with and without asyncio, and sends its jobs to every kind of server.

The two halves do not know each other, so each lane is a pair of them: every test meets all six and all four.
"""

import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol

import pytest

from relevo import Queue
from relevo.outbox import Outbox, OutboxRelay, OutboxTable
from tests.outbox.database import Author, Database
from tests.servers.database import DatabaseServer
from tests.servers.server import Server

LANES = (
    "sqlite-sync-valkey",
    "sqlite-async-redis7",
    "postgres-sync-redis86",
    "postgres-async-cluster",
    "mariadb-sync-cluster",
    "mariadb-async-redis86",
)
_DRIVERS = {
    "postgres": {"sync": "psycopg", "async": "asyncpg"},
    "mariadb": {"sync": "pymysql", "async": "asyncmy"},
}


class RelayOf(Protocol):
    """`relay_of(**options)`: a relay on the test's database, not started; closed at the end of the test."""

    def __call__(self, **options: Any) -> OutboxRelay: ...


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """The database, the way to use it, and the server of this run."""
    database, style, server = request.param.split("-")
    return database, style, server


@pytest.fixture
def server(request: pytest.FixtureRequest, lane: tuple[str, str, str]) -> Server:
    return request.getfixturevalue(lane[2])


@pytest.fixture
async def database(
    request: pytest.FixtureRequest, lane: tuple[str, str, str], tmp_path: Path
) -> AsyncGenerator[Database]:
    kind, style, _ = lane
    if kind == "sqlite":
        driver = "sqlite+aiosqlite" if style == "async" else "sqlite"
        url = f"{driver}:///{tmp_path / 'app.db'}"
    else:
        shared: DatabaseServer = request.getfixturevalue(kind)
        url = shared.url(_DRIVERS[kind][style])
    table = OutboxTable(name=f"outbox_{uuid.uuid4().hex[:12]}")
    database = Database(url, table, uses_asyncio=style == "async")
    await database.create()
    yield database
    await database.close()


@pytest.fixture
def outbox(database: Database) -> Author:
    return Author(Outbox(database.table))


@pytest.fixture
async def relay_of(database: Database, server: Server) -> AsyncGenerator[RelayOf]:
    made: list[OutboxRelay] = []

    def make(**options: Any) -> OutboxRelay:
        settings: dict[str, Any] = {"redis_url": server.url, **options}
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
async def queue(server: Server, queue_name: str) -> AsyncGenerator[Queue]:
    async with Queue(queue_name, redis_url=server.url) as queue:
        yield queue
