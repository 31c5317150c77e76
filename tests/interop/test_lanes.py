"""A laned job is an ordinary entry once it has its turn: PyPI's chasquimq runs it, and an audit of ours frees its place."""

import pytest

from relevo import LaneLimit
from relevo.wire.keys import QueueKeys
from tests.interop.conftest import Until
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side
from tests.support.watched import WatchedWorker

pytestmark = pytest.mark.interop


async def test_their_worker_runs_laned_jobs(ours: Side, theirs: Side) -> None:
    queue, runs = ours.queue(), Runs()
    await queue.add_bulk([{"name": "job", "data": at, "lane": "ab"[at % 2]} for at in range(10)])
    async with theirs.worker(runs):
        await runs.until(10)
    assert sorted(runs.data) == list(range(10))
    await queue.obliterate(force=True)


async def test_a_place_that_their_worker_did_not_free_is_found_by_an_audit(
    redis86: Server, ours: Side, theirs: Side, until: Until, queue_name: str
) -> None:
    queue, runs, keys = ours.queue(), Runs(), QueueKeys(queue_name)
    await queue.lanes.limit("a", LaneLimit(concurrency=1))
    await queue.add_bulk([{"name": "job", "data": at, "lane": "a"} for at in range(2)])
    async with theirs.worker(runs):
        await runs.until(1)
        await until(lambda: redis86.call("XLEN", keys.stream) == 0)
    assert await queue.lanes.state("a") == ("a", 1, 1, LaneLimit(concurrency=1))
    mine = Runs()
    worker = WatchedWorker(queue_name, mine, redis_url=redis86.url, read_block_ms=50)
    async with worker:
        await worker.lane_dispatcher.audit()
        await worker.lane_dispatcher.audit()
        await worker.until(done=1)
    assert (runs.data, mine.data) == ([0], [1])
