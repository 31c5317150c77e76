"""Fixtures for pytest. In the conftest.py at the root of your tests: `pytest_plugins = ["relevo.testing.plugin"]`.

Not registered with pytest by itself: importing relevo would then cost every test run of every project that has it
installed a third of a second, whether it uses the fixtures or not.
"""

from __future__ import annotations

import asyncio
import importlib.util
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import pytest

from relevo.broker.embedded import EmbeddedServer
from relevo.engine.consuming.handlers import AnyHandler
from relevo.engine.queue import Queue
from relevo.engine.worker import Worker
from relevo.testing.clock import Clock
from relevo.testing.inside import worker_of

F = TypeVar("F", bound=Callable[..., Any])


def _async_fixture(function: F) -> F:
    """Whoever runs the async tests runs the async fixtures: pytest-asyncio (in both of its modes), else anyio."""
    if importlib.util.find_spec("pytest_asyncio") is not None:
        import pytest_asyncio

        make: Any = pytest_asyncio.fixture
    else:
        make = pytest.fixture
    return make(function)


class StartWorker:
    """`worker = await relevo_worker(handler)`: a worker of `relevo_queue` that runs until the end of the test."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._running = AsyncExitStack()

    async def __call__(self, handler: AnyHandler, **options: Any) -> Worker:
        """Options are those of `Worker`; it reads when this returns."""
        worker = worker_of(self._queue, handler, options)
        started = asyncio.ensure_future(worker.started.wait_for(timeout=20))
        await asyncio.sleep(0)  # let it listen before there is something to hear
        await self._running.enter_async_context(worker)
        await started
        return worker

    async def close(self) -> None:
        await self._running.aclose()


@pytest.fixture(scope="session")
def relevo_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[EmbeddedServer]:
    """A server of this test run alone, with its data in a temporary folder; `relevo_server.url` is its address."""
    with EmbeddedServer(tmp_path_factory.mktemp("relevo"), fsync="no") as server:
        yield server


@_async_fixture
async def relevo_queue(relevo_server: EmbeddedServer) -> AsyncGenerator[Queue]:
    """An empty queue with a name that no other test has; gone at the end of the test."""
    async with Queue(f"test-{uuid.uuid4().hex[:12]}", redis_url=relevo_server.url) as queue:
        yield queue
        await queue.obliterate(force=True)


@_async_fixture
async def relevo_worker(relevo_queue: Queue) -> AsyncGenerator[StartWorker]:
    """Starts workers of `relevo_queue`: `worker = await relevo_worker(handler, concurrency=5)`."""
    start = StartWorker(relevo_queue)
    yield start
    await start.close()


@pytest.fixture
def relevo_clock(relevo_queue: Queue) -> Clock:
    """The clock of `relevo_queue`."""
    return Clock(relevo_queue)
