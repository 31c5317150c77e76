"""One registry for several workers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from relevo import Tasks


async def test_resources_are_opened_by_the_first_worker_and_closed_by_the_last() -> None:
    told: list[str] = []

    @asynccontextmanager
    async def pool() -> AsyncGenerator[str]:
        told.append("opened")
        yield "pool"
        told.append("closed")

    tasks = Tasks(pool)
    first, second = tasks.lifespan(), tasks.lifespan()
    await first.__aenter__()
    await second.__aenter__()
    await first.__aexit__(None, None, None)
    assert told == ["opened"]
    await second.__aexit__(None, None, None)
    assert told == ["opened", "closed"]


async def test_resources_are_made_anew_for_a_worker_that_comes_later() -> None:
    told: list[str] = []

    @asynccontextmanager
    async def pool() -> AsyncGenerator[str]:
        told.append("opened")
        yield "pool"

    tasks = Tasks(pool)
    for _ in range(2):
        async with tasks.lifespan():
            pass
    assert told == ["opened", "opened"]
