"""How outcomes reach Redis: together, once, only by the owner, and leaving nothing behind."""

import asyncio
from collections import Counter, defaultdict

import pytest

from relevo import Job, Queue, UnrecoverableError
from relevo.engine.settling.settle_request import SettleResult
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.patience import until
from tests.servers.proxy import Proxy
from tests.servers.server import Client, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker


class Outcomes:
    """Three jobs that are let go together: one succeeds, one is to be tried again, one never."""

    def __init__(self) -> None:
        self.began = Runs()
        self.gate = asyncio.Event()

    async def __call__(self, job: Job) -> str:
        await self.began(job)
        await self.gate.wait()
        if job.name == "again":
            raise RuntimeError("again")
        if job.name == "never":
            raise UnrecoverableError("never")
        return "an answer"


async def test_the_outcomes_of_one_moment_travel_in_one_flush(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    outcomes, flushes = Outcomes(), list[SettleResult]()
    async with worker_of(outcomes, store_results=True) as worker:
        jobs = [await queue.add(name, {}, backoff=60_000) for name in ("ok", "again", "never")]
        await outcomes.began.until(3)
        worker.settled.listen(flushes.append)
        outcomes.gate.set()
        await worker.until(done=1, retried=1, dead=1)
        assert (1, 1, 1, 0) in [(each.done, each.retried, each.dead, each.lost) for each in flushes]
        assert await queue.get_job_result(jobs[0].id) == "an answer"
        assert (await raw.zcard(keys.delayed), await raw.xlen(keys.dead)) == (1, 1)


async def test_what_a_flush_says_is_true_when_its_event_is_heard(queue: Queue, worker_of: WorkerOf) -> None:
    """Events travel behind the settles: whoever hears `completed` finds the result."""
    async with queue.events() as events, worker_of(Runs(lambda _: 42), store_results=True):
        job = await queue.add("job", {})
        async for event in events:
            if event.name == "completed":
                assert await queue.get_job_result(job.id) == 42
                break


@pytest.mark.parametrize("lane", ["redis86"], indirect=True)
async def test_a_young_lease_is_settled_by_the_plain_command(queue: Queue, worker_of: WorkerOf, server: Server) -> None:
    assert await owner_checks(queue, worker_of, server, aged=False) == 0


@pytest.mark.parametrize("lane", ["redis86"], indirect=True)
async def test_a_lease_that_may_have_lapsed_is_settled_by_the_script_that_asks_for_the_owner(
    queue: Queue, worker_of: WorkerOf, server: Server
) -> None:
    assert await owner_checks(queue, worker_of, server, aged=True) == 1


async def owner_checks(queue: Queue, worker_of: WorkerOf, server: Server, *, aged: bool) -> int:
    """How often the server was asked who owns an entry while one job was settled."""
    held = HeldRuns()
    quiet = {"delayed_enabled": False, "stalled_detector_enabled": False, "run_scheduler": False}
    async with worker_of(held, **quiet) as worker:
        await queue.add("job", {})
        await held.until(1)
        if aged:
            for delivery in worker.held.values():
                delivery.leased_at -= worker.held.trust_s
        server.call("CONFIG", "RESETSTAT")
        held.let_go()
        await worker.until(done=1)
        stats: bytes = server.call("INFO", "commandstats")
    for line in stats.splitlines():
        if line.startswith(b"cmdstat_xpending:"):
            return int(line.partition(b"calls=")[2].partition(b",")[0])
    return 0


async def test_an_aged_lease_that_is_still_ours_settles_as_usual(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, group: Group
) -> None:
    outcomes = Outcomes()
    async with worker_of(outcomes, store_results=True) as worker:
        jobs = [await queue.add(name, {}, backoff=60_000) for name in ("ok", "again", "never")]
        await outcomes.began.until(3)
        for delivery in worker.held.values():
            delivery.leased_at -= worker.held.trust_s
        outcomes.gate.set()
        total = await worker.until(done=1, retried=1, dead=1)
        assert total.lost == 0
        assert await queue.get_job_result(jobs[0].id) == "an answer"
        assert (await raw.zcard(keys.delayed), await raw.xlen(keys.dead)) == (1, 1)
        assert (await group.length(), await group.pending()) == (0, [])


async def test_a_settle_of_what_is_settled_already_changes_nothing(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, group: Group
) -> None:
    """As when the answer to a flush was lost and it is sent again: the entry's removal is the gate."""
    outcomes = Outcomes()
    async with worker_of(outcomes) as worker:
        for name in ("ok", "again", "never"):
            await queue.add(name, {}, backoff=60_000)
        await outcomes.began.until(3)
        for delivery in worker.held.values():
            await raw.xack(keys.stream, "default", delivery.entry_id)
            await raw.xdel(keys.stream, delivery.entry_id)
        outcomes.gate.set()
        total = await worker.until(lost=3)
        assert (total.done, total.retried, total.dead) == (0, 0, 0)
        assert (await raw.zcard(keys.delayed), await raw.xlen(keys.dead)) == (0, 0)
        assert worker.held == {}


@pytest.mark.parametrize("lane", ["redis86", "redis7", "valkey"], indirect=True)
async def test_flushes_that_were_cut_off_in_a_row_are_settled_once_and_tell_their_events_in_order(
    queue: Queue, server: Server, raw: Client, keys: QueueKeys
) -> None:
    jobs, cuts, runs = 3000, 3, Counter[str]()

    async def handler(job: Job) -> None:
        runs[job.id] += 1

    def cut(_: SettleResult) -> None:
        if proxy.cuts < cuts:
            proxy.cut()  # with the next flush under way

    await queue.add_bulk([{"name": "job", "data": at} for at in range(jobs)])
    async with Proxy(server.url) as proxy:
        worker = WatchedWorker(keys.queue, handler, redis_url=proxy.url)
        worker.settled.listen(cut)
        async with worker:
            await until(lambda: is_empty(raw, keys))
    assert (len(runs), set(runs.values())) == (jobs, {1})
    told: dict[str, list[str]] = defaultdict(list)
    for _, fields in await raw.xrange(keys.events):
        told[fields[b"id"].decode()].append(fields[b"e"].decode())
    told.pop("", None)  # what is said of the queue
    assert (len(told), proxy.cuts >= cuts) == (jobs, True)
    # What was written and not answered is told again; what ended is never told before it began.
    assert all(each[0] == "active" and "completed" in each for each in told.values())


async def is_empty(raw: Client, keys: QueueKeys) -> bool:
    return await raw.xlen(keys.stream) == 0
