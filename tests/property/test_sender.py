"""Adds over connections that break at any point: what returned is there exactly once, what raised at most once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from relevo import Queue
from relevo.errors import AddUncertain, ConnectionLost, QueueFull, RelevoError, Unreachable
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import decode_payload
from tests.conftest import Launch
from tests.pace import limit
from tests.patience import turn
from tests.servers.proxy import Fate, Proxy
from tests.servers.server import EmbeddedValkey, Server

CUTS = (Fate.CUT_BEFORE, Fate.CUT_MIDWAY, Fate.CUT_AFTER)
ROOMY, TIGHT = 1_000_000, 12


@dataclass(frozen=True)
class Step:
    """Some calls made in one turn of the loop, each of so many jobs (1: an `add`); then so many turns of waiting."""

    calls: tuple[int, ...]
    turns: int
    cut: bool = False
    """Cut every connection behind them, whatever is under way."""


SIZES = st.one_of(st.integers(1, 4), st.sampled_from([1, 1, 1, 2100]))
STEPS = st.lists(
    st.builds(
        Step,
        calls=st.lists(SIZES, min_size=1, max_size=4).map(tuple),
        turns=st.sampled_from([0, 0, 1, 2, 5, 30]),
        cut=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
# Of each connection the first pieces are the sign-in, the probe and the scripts: cuts there are cuts too.
FATES = st.lists(st.one_of(st.just(Fate.PASS), st.just(Fate.PASS), st.sampled_from(CUTS)), max_size=14)

BROKEN = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Story:
    """The calls of one run and what became of each."""

    def __init__(self, server: Server, queue_name: str, *, cap: int = ROOMY) -> None:
        self._server = server
        self._keys = QueueKeys(queue_name)
        self._cap = cap
        self._calls: list[asyncio.Task[Any]] = []
        self._tokens: list[list[int]] = []

    async def tell(
        self, steps: list[Step], fates: list[Fate], *, wait_s: float = 20, late_by: int | None = None
    ) -> None:
        self._server.call("DEL", self._keys.stream)
        async with Proxy(self._server.url, fates) as proxy:
            proxy.late_by = late_by
            queue = Queue(self._keys.queue, redis_url=proxy.url, max_stream_len=self._cap, wait_s=wait_s)
            for step in steps:
                self._calls += [asyncio.create_task(self._call(queue, size)) for size in step.calls]
                for _ in range(step.turns):
                    await turn()
                if step.cut:
                    proxy.cut()
            async with asyncio.timeout(limit(40)):  # a hang is an error, and shrinking one must not take the day
                await asyncio.gather(*self._calls, return_exceptions=True)
                await queue.close()
            await proxy.deliver_late()

    async def _call(self, queue: Queue, size: int) -> None:
        first = sum(map(len, self._tokens))
        tokens = list(range(first, first + size))
        self._tokens.append(tokens)
        if size == 1:
            await queue.add("job", first)
        else:
            await queue.add_bulk([{"name": "job", "data": token} for token in tokens])

    def outcomes(self) -> list[tuple[list[int], BaseException | None]]:
        """For each call its jobs, and what it raised."""
        return [(tokens, call.exception()) for tokens, call in zip(self._tokens, self._calls, strict=True)]

    def found(self) -> Counter[int]:
        """How often each job is in the stream."""
        entries = self._server.call("XRANGE", self._keys.stream, "-", "+")
        return Counter(decode_payload(Envelope.decode(fields[1]).payload) for _, fields in entries)

    def order(self) -> list[int]:
        entries = self._server.call("XRANGE", self._keys.stream, "-", "+")
        return [decode_payload(Envelope.decode(fields[1]).payload) for _, fields in entries]


@BROKEN
@given(steps=STEPS, fates=FATES)
@example(steps=[Step((1,), 40), Step((2100, 1), 2, cut=True)], fates=[])
@example(steps=[Step((1,), 0)], fates=[Fate.PASS] * 3 + [Fate.CUT_AFTER] * 3)
async def test_every_add_lands_exactly_once_whatever_breaks(
    valkey: Server, queue_name: str, steps: list[Step], fates: list[Fate]
) -> None:
    story = Story(valkey, queue_name)
    await story.tell(steps, fates)
    assert [error for _, error in story.outcomes() if error] == []
    assert story.found() == Counter(token for tokens, _ in story.outcomes() for token in tokens)


@BROKEN
@given(steps=STEPS.filter(lambda steps: all(size < 100 for step in steps for size in step.calls)), fates=FATES)
async def test_a_full_queue_takes_each_call_wholly_or_not_at_all_whatever_breaks(
    redis7: Server, queue_name: str, steps: list[Step], fates: list[Fate]
) -> None:
    story = Story(redis7, queue_name, cap=TIGHT)
    await story.tell(steps, fates)
    found = story.found()
    for tokens, error in story.outcomes():
        assert error is None or isinstance(error, QueueFull)
        assert [found[token] for token in tokens] == [int(error is None)] * len(tokens)
    assert found.total() <= TIGHT


@BROKEN
@given(steps=STEPS, fates=st.lists(st.sampled_from([*CUTS, Fate.PASS]), min_size=4, max_size=40))
async def test_an_add_that_gave_up_is_there_at_most_once(
    valkey: Server, queue_name: str, steps: list[Step], fates: list[Fate]
) -> None:
    story = Story(valkey, queue_name)
    await story.tell(steps, fates, wait_s=0.05)
    found = story.found()
    for tokens, error in story.outcomes():
        assert error is None or isinstance(error, Unreachable | ConnectionLost)
        for token in tokens:
            assert found[token] == 1 if error is None else found[token] <= 1


@settings(BROKEN, max_examples=12)
@given(steps=STEPS, late=st.integers(3, 6), late_by=st.none() | st.integers(0, 6))
async def test_a_write_that_arrives_after_its_connection_was_given_up_adds_nothing_twice(
    valkey: Server, queue_name: str, steps: list[Step], late: int, late_by: int | None
) -> None:
    story = Story(valkey, queue_name)
    await story.tell(steps, [*([Fate.PASS] * late), Fate.CUT_LATE], late_by=late_by)
    assert story.found() == Counter(token for tokens, _ in story.outcomes() for token in tokens)


@dataclass(frozen=True)
class Special:
    """A delayed or an idempotent add."""

    job_id: str | None
    delay_ms: int | None


JOB_IDS = st.sampled_from([None, "a", "b", "c"])
DELAYS = st.sampled_from([None, 50, 60_000])
SPECIALS = st.lists(st.builds(Special, job_id=JOB_IDS, delay_ms=DELAYS), min_size=1, max_size=6)


@BROKEN
@given(jobs=SPECIALS, fates=FATES, together=st.booleans())
async def test_delayed_and_unique_adds_land_once_or_say_that_they_are_uncertain(
    valkey: Server, queue_name: str, jobs: list[Special], fates: list[Fate], together: bool
) -> None:
    keys = QueueKeys(queue_name)
    for key in valkey.call("KEYS", "*"):
        valkey.call("DEL", key)
    outcomes: list[Any] = []
    async with Proxy(valkey.url, fates) as proxy, Queue(queue_name, redis_url=proxy.url, wait_s=20) as queue:
        adds = [queue.add("job", at, job_id=job.job_id, delay_ms=job.delay_ms) for at, job in enumerate(jobs)]
        if together:
            outcomes = await asyncio.gather(*adds, return_exceptions=True)
        else:
            outcomes = [await asyncio.gather(add, return_exceptions=True) for add in adds]
            outcomes = [each for (each,) in outcomes]
    stream = [fields[1] for _, fields in valkey.call("XRANGE", keys.stream, "-", "+")]
    delayed = [member[7:] for member in valkey.call("ZRANGE", keys.delayed, 0, -1)]  # 4 bytes of length, `job`
    ids = Counter(Envelope.decode(each).id for each in [*stream, *delayed])
    for job, outcome in zip(jobs, outcomes, strict=True):
        if isinstance(outcome, RelevoError):
            assert isinstance(outcome, AddUncertain)
            assert job.job_id is None
            assert ids[outcome.job_id] <= 1
        else:
            assert ids[outcome.id] == 1
    assert ids.total() == len(ids)


async def test_jobs_of_one_producer_stay_in_order_over_a_cut(valkey: Server, queue_name: str) -> None:
    story = Story(valkey, queue_name)
    steps = [Step((1,), 60), *(Step((3, 1), 1) for _ in range(20)), Step((2,), 0, cut=True), Step((2, 1), 0)]
    await story.tell(steps, [])
    assert story.order() == sorted(story.order())


@pytest.mark.scale
@settings(BROKEN, max_examples=1500)
@given(steps=STEPS, fates=FATES)
@pytest.mark.timeout(1800)
async def test_every_add_lands_exactly_once_at_length(
    valkey: Server, queue_name: str, steps: list[Step], fates: list[Fate]
) -> None:
    story = Story(valkey, queue_name)
    await story.tell(steps, fates)
    assert story.found() == Counter(token for tokens, _ in story.outcomes() for token in tokens)


async def test_a_write_refused_for_a_moment_is_not_taken_for_landed_because_the_next_one_was(
    launch: Launch, queue_name: str
) -> None:
    server = launch(EmbeddedValkey)
    async with Proxy(server.url) as proxy, Queue(queue_name, redis_url=proxy.url) as queue:
        await queue.add("job", 0)
        await queue.add("job", 1)  # now the sender knows the length, and pipelines
        proxy.hold_replies()
        server.call("CONFIG", "SET", "min-replicas-to-write", 1)
        first = asyncio.create_task(queue.add("job", 2))
        refused = server.call("INFO", "errorstats")
        while b"errorstat_NOREPLICAS" not in refused:
            await turn()
            refused = server.call("INFO", "errorstats")
        server.call("CONFIG", "SET", "min-replicas-to-write", 0)
        second = asyncio.create_task(queue.add("job", 3))
        await turn()
        await turn()
        proxy.release()
        await asyncio.gather(first, second)
        rows = server.call("XRANGE", QueueKeys(queue_name).stream, "-", "+")
    assert sorted(decode_payload(Envelope.decode(fields[1]).payload) for _, fields in rows) == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{}, {"delay_ms": 60_000}, {"job_id": "once"}], ids=["plain", "delayed", "unique"])
async def test_closing_a_queue_ends_an_add_that_waits_for_a_connection(
    valkey: Server, queue_name: str, options: dict[str, Any]
) -> None:
    async with Proxy(valkey.url) as proxy:
        queue = Queue(queue_name, redis_url=proxy.url, wait_s=0.3)
        await queue.add("job", 0)
        proxy.refuse()
        add = asyncio.create_task(queue.add("job", 1, **options))
        await turn()
        async with asyncio.timeout(limit(20)):
            await queue.close()
            with pytest.raises((Unreachable, ConnectionLost)):
                await add
