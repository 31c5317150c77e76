"""The work room's suite runs on three databases, with claims by the order index, by SQL beside a Redis, and without Redis."""

import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast

import pytest

from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.servers.server import Server
from tests.servers.stores import STORES, store_url, with_tables
from tests.support.desk import Desk, a_desk

PATHS = ("index", "sql", "alone")
LANES = tuple(f"{store}-{path}" for store in STORES for path in PATHS)
INDEXED = (*(f"{store}-index" for store in STORES), "sqlite-cluster")
"""Where claims go by the index: on every database, and once on a Redis Cluster, each queue in a slot of its own."""


class Lane(NamedTuple):
    """Where an installation works."""

    database_url: str
    redis: Server | None
    path: Literal["index", "sql"]


class OpenWorkQueues(Protocol):
    """`await open_work_queues()`: more work queues on the test's database, closed at the end of the test."""

    async def __call__(self, **settings: Any) -> WorkQueues: ...


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Lane:
    """Every store and claim path in turn; a test that needs one only says so with `parametrize(..., indirect=True)`."""
    store, path = cast("str", request.param).split("-")
    server = {"alone": None, "cluster": "cluster"}.get(path, "redis86")
    redis: Server | None = None if server is None else request.getfixturevalue(server)
    return Lane(store_url(request, store, tmp_path), redis, "index" if path in ("index", "cluster") else "sql")


@pytest.fixture
async def open_work_queues(lane: Lane, clock: Clock) -> AsyncGenerator[OpenWorkQueues]:
    opened: list[WorkQueues] = []

    async def open_one(**settings: Any) -> WorkQueues:
        redis_url = None if lane.redis is None else lane.redis.url
        chosen: dict[str, Any] = {"claim_path": lane.path, "redis_url": redis_url, "poll_s": 0.1} | settings
        await with_tables(lane.database_url)
        work_queues = await WorkQueues.open(WorkSettings(database_url=lane.database_url, **chosen), now_ms=clock)
        opened.append(work_queues)
        return work_queues

    yield open_one
    for work_queues in opened:
        await work_queues.close()


@pytest.fixture
async def work_queues(open_work_queues: OpenWorkQueues) -> WorkQueues:
    return await open_work_queues()


@pytest.fixture
async def desk(work_queues: WorkQueues, clock: Clock) -> Desk:
    """A tenant of the test's own, with the scope `main`."""
    return await a_desk(work_queues, clock, f"t{uuid.uuid4().hex[:12]}")
