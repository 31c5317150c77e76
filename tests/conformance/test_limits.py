"""Limits of a whole queue, over all its workers: so many starts in a time, so many jobs at once."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos.faults import WorkerProcess
from chaos.ledger import Ledger
from relevo import Job, Queue
from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply
from relevo.broker.scripts import Script
from relevo.engine.consuming.queue_limiter import ACQUIRE
from relevo.errors import BadArgument, ConnectionLost, WrongType
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.pace import limit
from tests.patience import turn, until
from tests.servers.server import Client, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker, until_done

IDLE_MS = 1000


class Crowd(Runs):
    """A handler that counts how many of it run at once; each of them ends when one may `leave`."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self.starts: list[float] = []
        self.leave = asyncio.Semaphore(0)
        self._now = 0

    async def __call__(self, job: Job) -> None:
        self.starts.append(time.monotonic())
        self._now += 1
        self.most = max(self.most, self._now)
        await super().__call__(job)
        await self.leave.acquire()
        self._now -= 1


def some(count: int) -> list[dict[str, object]]:
    return [{"name": "job", "data": at} for at in range(count)]


async def test_two_workers_share_one_rate(queue: Queue, worker_of: WorkerOf) -> None:
    crowd, options = Crowd(), {"rate_limit_max": 10, "rate_limit_duration_ms": 500}
    async with worker_of(crowd, **options) as first, worker_of(crowd, **options) as second:
        for _ in range(20):
            crowd.leave.release()
        await queue.add_bulk(some(20))
        await until_done(first, second, done=20)
    # Ten at once, and the other ten at 20 a second.
    assert crowd.starts[-1] - crowd.starts[0] >= 0.45
    assert crowd.starts[9] - crowd.starts[0] < crowd.starts[-1] - crowd.starts[0]


async def test_a_worker_without_the_limit_in_its_settings_is_not_limited(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs()) as worker:
        await queue.add_bulk(some(50))
        await worker.until(done=50)
    assert worker.limiter is None


async def test_two_workers_share_the_places(queue: Queue, worker_of: WorkerOf) -> None:
    crowd, options = Crowd(), {"max_running": 3, "concurrency": 10}  # of thirty jobs each has some in hand
    async with worker_of(crowd, **options) as first, worker_of(crowd, **options) as second:
        asked = [
            each.limiter.limited.wait_for(timeout=limit(20)) for each in (first, second) if each.limiter is not None
        ]
        refused = asyncio.gather(*asked)
        await turn()
        await queue.add_bulk(some(30))
        await crowd.until(3)
        await refused  # both have asked for more
        assert len(crowd.jobs) == 3
        for ended in range(30):
            crowd.leave.release()
            await until_done(first, second, done=ended + 1)
    assert (crowd.most, len(crowd.jobs)) == (3, 30)


async def test_the_places_of_a_killed_worker_come_back(
    queue: Queue,
    worker_of: WorkerOf,
    raw: Client,
    keys: QueueKeys,
    server: Server,
    tmp_path: Path,
) -> None:
    ledger, runs, options = Ledger(tmp_path / "ledger"), Runs(), {"max_running": 2, "claim_min_idle_ms": IDLE_MS}
    told: dict[str, Any] = {"concurrency": 2, **options}  # full, it reads no more
    with WorkerProcess(ledger, queue.name, server.url, **told) as doomed:
        await doomed.ready()
        await queue.add_bulk([{"name": "long", "data": {"seconds": 600}}] * 2)
        await doomed.until(lambda marks: sum(mark.kind == "start" for mark in marks) == 2)
        async with worker_of(runs, **options) as worker:
            assert worker.limiter is not None
            limited = asyncio.ensure_future(worker.limiter.limited.wait_for())
            await queue.add_bulk(some(3))
            await limited
            assert (await raw.zcard(keys.places), runs.jobs) == (2, [])  # while it lives its two places are taken
            doomed.kill()
            await worker.until(done=5)  # its two jobs as well, each with a place
    assert sorted(runs.names) == ["job"] * 3 + ["long"] * 2
    assert await raw.zcard(keys.places) == 0


async def test_a_long_job_keeps_its_place_as_long_as_it_runs(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    runs = HeldRuns()
    async with worker_of(runs, max_running=1, claim_min_idle_ms=200) as worker:
        await queue.add_bulk(some(2))
        await runs.until(1)
        for _ in range(5):  # over more than one idle limit
            await worker.leases.renewed.wait_for()
        assert (len(runs.ids), await raw.zcard(keys.places)) == (1, 1)
        runs.let_go()
        await worker.until(done=2)


async def test_a_place_is_free_after_a_failure_a_retry_and_a_dead_letter(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(fail=lambda job: ValueError("no") if job.name == "bad" else None)
    async with worker_of(runs, max_running=1) as worker:
        await queue.add("bad", {}, attempts=2, backoff={"kind": "fixed", "delay_ms": 1})
        await queue.add("good", {})
        await worker.until(done=1, retried=1, dead=1)


async def test_what_waits_for_the_rate_is_handed_back_at_shutdown(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    runs = Runs()
    async with worker_of(runs, rate_limit_max=2, rate_limit_duration_ms=3_600_000) as worker:
        await queue.add_bulk(some(10))
        await worker.until(done=2)
    assert await group.length() == 8
    others = Runs()
    async with worker_of(others) as worker:  # without waiting for an idle limit of half a minute
        await worker.until(done=8)
    assert sorted(runs.data + others.data) == list(range(10))


@pytest.mark.parametrize("deadline", [5.0, 0.05], ids=["in time", "cut short"])
async def test_a_worker_that_leaves_gives_its_places_back(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, deadline: float
) -> None:
    runs = HeldRuns()
    async with worker_of(runs, max_running=2, shutdown_deadline_s=deadline):
        await queue.add_bulk(some(6))
        await runs.until(2)
        if deadline > 1:
            runs.let_go()
    assert await raw.zcard(keys.places) == 0
    await queue.drain()


async def test_rate_and_places_go_together(queue: Queue, worker_of: WorkerOf) -> None:
    crowd = Crowd()
    async with worker_of(crowd, max_running=2, rate_limit_max=10, rate_limit_duration_ms=200) as worker:
        await queue.add_bulk(some(15))
        for ended in range(15):
            crowd.leave.release()
            await worker.until(done=ended + 1)
    assert crowd.most <= 2
    assert crowd.starts[-1] - crowd.starts[0] >= 0.08


@pytest.mark.parametrize("lost", [1, 3])
async def test_places_whose_leave_was_lost_on_the_way_are_not_held_against_their_jobs(
    queue: Queue, worker_of: WorkerOf, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has given the places and nobody has heard of it: the queue once stood still for good."""
    left, real = [lost], Link.run

    async def run(link: Link, script: Script, keys: Sequence[bytes], *arguments: Argument) -> Reply:
        reply = await real(link, script, keys, *arguments)
        if script is ACQUIRE and left[0]:
            left[0] -= 1
            raise ConnectionLost(address=link.address, reason="cut by the test")
        return reply

    monkeypatch.setattr(Link, "run", run)
    crowd = Crowd()
    async with worker_of(crowd, max_running=2, concurrency=4) as worker:
        await queue.add_bulk(some(6))
        await crowd.until(2)
        for _ in range(6):
            crowd.leave.release()
        await worker.until(done=6)
    assert left == [0]
    assert crowd.most == 2


@pytest.mark.parametrize("option", ["rate_limit_max", "rate_limit_duration_ms", "max_running"])
def test_limits_of_nothing_are_refused(option: str) -> None:
    for value, error in ((0, BadArgument), (-1, BadArgument), (1.5, WrongType), ("3", WrongType)):
        with pytest.raises(error, match=f"{option}="):
            WatchedWorker("q", Runs(), **{option: value})


async def test_a_worker_that_gets_no_leave_says_so(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    """It read, held and renewed, and started nothing; its health said that it could claim."""
    await raw.set(keys.limiter, "not a hash of ours")
    async with worker_of(Runs(), rate_limit_max=10) as worker:
        await queue.add("job", 1)
        await until(lambda: not worker.health().can_claim)
        assert worker.health().reason.startswith("cannot start jobs: ")
        await raw.delete(keys.limiter)
        await worker.until(done=1)
        assert worker.health().can_claim
