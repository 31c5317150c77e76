"""Fixtures of the tests with PyPI's chasquimq: both libraries on one queue of a Redis 8.6, which chasquimq needs."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from relevo.wire.keys import QueueKeys
from tests import patience
from tests.servers.server import Server
from tests.support.side import Side

THEIRS, OURS = "chasquimq", "relevo"

Until = Callable[..., Any]
"""`await until(lambda: server.call("XLEN", key) == 0)`: waits for what only the server can tell."""


@pytest.fixture
async def theirs(redis86: Server, queue_name: str) -> AsyncGenerator[Side]:
    side = Side(THEIRS, redis86.url, queue_name)
    yield side
    await side.close()


@pytest.fixture
async def ours(redis86: Server, queue_name: str) -> AsyncGenerator[Side]:
    side = Side(OURS, redis86.url, queue_name)
    yield side
    await side.close()


@pytest.fixture(params=[(THEIRS, OURS), (OURS, THEIRS)], ids="-to-".join)
def direction(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture
def giver(direction: tuple[str, str], theirs: Side, ours: Side) -> Side:
    """The side that adds jobs (or leaves them behind), once each library."""
    return theirs if direction[0] == THEIRS else ours


@pytest.fixture
def taker(direction: tuple[str, str], theirs: Side, ours: Side) -> Side:
    """The other side: it runs them."""
    return ours if direction[0] == THEIRS else theirs


@pytest.fixture(params=[THEIRS, OURS])
def side(request: pytest.FixtureRequest, theirs: Side, ours: Side) -> Side:
    """Each library in turn, for what must be the same in both."""
    return theirs if request.param == THEIRS else ours


@pytest.fixture
def keys(queue_name: str) -> QueueKeys:
    return QueueKeys(queue_name)


@pytest.fixture
def until() -> Until:
    """What PyPI's chasquimq does cannot be waited for by a signal: the server is asked until it says so."""

    async def wait(true: Callable[[], Any], *, timeout: float = 20.0) -> None:
        await patience.until(lambda: bool(true()), timeout=timeout)

    return wait
