"""The rate of a queue and of a lane: never more starts than allowed in any window, over all workers, by Redis' clock."""

import time
from collections.abc import Sequence

import pytest

from relevo import Job, LaneLimit, Queue
from relevo.errors import BadArgument
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.patience import until
from tests.servers.server import Client
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker, until_done


class TimedRuns(Runs):
    """A handler that writes down when it started, in microseconds. The server runs on this machine, so its clock is ours."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[int] = []

    async def __call__(self, job: Job) -> None:
        self.starts.append(time.time_ns() // 1000)
        await super().__call__(job)


def most_within(starts: Sequence[int], window: int) -> int:
    """The largest number of starts in any window of that length."""
    ordered = sorted(starts)
    return max(sum(first <= each < first + window for each in ordered) for first in ordered)


def some(count: int) -> list[dict[str, object]]:
    return [{"name": "job", "data": at} for at in range(count)]


async def logged_starts(raw: Client, key: bytes) -> list[int]:
    """What the limiter has written down: milliseconds, one for each start."""
    log = await raw.zrange(key, 0, -1, withscores=True)
    return [int(at) for member, at in log if member != b"total" for _ in range(int(member.rpartition(b":")[2]))]


async def has_length(raw: Client, stream: bytes, length: int) -> bool:
    return await raw.xlen(stream) == length


async def test_no_window_sees_more_starts_than_the_rate_over_two_workers(queue: Queue, worker_of: WorkerOf) -> None:
    runs, options = TimedRuns(), {"rate_limit_max": 5, "rate_limit_duration_ms": 400, "concurrency": 4}
    async with worker_of(runs, **options) as first, worker_of(runs, **options) as second:
        await queue.add_bulk(some(18))
        await until_done(first, second, done=18)
    assert most_within(runs.starts, 400_000) == 5


async def test_the_log_of_starts_keeps_the_bound_and_ends(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    options = {"rate_limit_max": 6, "rate_limit_duration_ms": 60_000}
    async with worker_of(Runs(), **options) as first, worker_of(Runs(), **options) as second:
        await queue.add_bulk(some(10))
        await until_done(first, second, done=6)
    starts = await logged_starts(raw, keys.starts)
    assert len(starts) == 6 == await raw.zscore(keys.starts, "total")
    seconds, _ = await raw.time()
    assert max(starts) <= (seconds + 1) * 1000  # told: a leave that nobody used would lie in the future
    assert 60_000 < await raw.pttl(keys.starts) <= 125_000
    await queue.drain()


async def test_leave_is_asked_for_no_more_than_can_start(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    """Leave for jobs that wait behind a long one would pile up, and be used all at once."""
    runs = Runs()
    async with worker_of(runs, concurrency=1, rate_limit_max=5, rate_limit_duration_ms=3_600_000) as worker:
        await queue.add_bulk(some(5))
        await worker.until(done=5)
        log = await raw.zrange(keys.starts, 0, -1)
    assert len(log) == 6  # one by one, and the total


async def test_with_a_burst_unused_starts_add_up(queue: Queue, worker_of: WorkerOf) -> None:
    runs = TimedRuns()
    options = {"rate_limit_max": 1, "rate_limit_duration_ms": 100, "rate_limit_burst": 8}
    async with worker_of(runs, **options) as worker:
        await queue.add_bulk(some(10))
        await worker.until(done=10)
    starts = sorted(runs.starts)
    assert starts[9] - starts[7] >= 60_000  # eight at once, then one by one
    assert starts[7] - starts[0] < starts[9] - starts[0]


async def test_no_window_sees_more_turns_of_a_lane_than_its_rate(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    await queue.lanes.limit("slow", LaneLimit(rate=3, per_ms=300))
    async with worker_of(Runs()) as worker:
        worker.pause()  # it deals the turns and leaves the jobs in the stream, whose ids say when
        await worker.pausing.changed.wait_for()
        await queue.add_bulk([{**job, "lane": "slow"} for job in some(10)])
        await until(lambda: has_length(raw, keys.stream, 10))
    turns = [int(entry_id.partition(b"-")[0]) for entry_id, _ in await raw.xrange(keys.stream)]
    assert most_within(turns, 300) == 3
    assert await raw.zcard(keys.starts + b":slow") <= 4
    await queue.drain()


async def test_a_lane_with_a_burst_takes_unused_turns_at_once(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("bursty", LaneLimit(rate=1, per_ms=3_600_000, burst=5))
    assert await queue.lanes.limits() == {"bursty": LaneLimit(rate=1, per_ms=3_600_000, burst=5)}
    async with worker_of(Runs()) as worker:
        await queue.add_bulk([{**job, "lane": "bursty"} for job in some(7)])
        await worker.until(done=5)
        assert await queue.lanes.waiting() == {"bursty": 2}
    await queue.drain()


async def test_a_bucket_of_chasquimq_in_the_old_key_counts_as_well(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    seconds, _ = await raw.time()
    await raw.hset(keys.limiter, mapping={"t": "2", "ts": str(seconds * 1000)})  # its workers have used the rest
    async with worker_of(Runs(), rate_limit_max=5, rate_limit_duration_ms=3_600_000) as worker:
        await queue.add_bulk(some(5))
        await worker.until(done=2)
        assert worker.limiter is not None
        await worker.limiter.limited.wait_for()
        assert worker.total.done == 2
    await queue.drain()


def test_a_burst_without_a_rate_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"rate_limit_burst=5 .*`rate_limit_max`"):
        WatchedWorker("q", Runs(), rate_limit_burst=5)
    with pytest.raises(BadArgument, match=r"burst=5 .*`rate`"):
        LaneLimit(concurrency=1, burst=5)
