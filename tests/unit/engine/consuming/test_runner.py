"""Slots that take turns: no more than the concurrency, none woken in vain, and what becomes of runs that end badly."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from relevo.engine.consuming.cancel_watch import CancelWatch
from relevo.engine.consuming.run_queue import RunQueue
from relevo.engine.consuming.runner import Runner
from relevo.engine.consuming.spans import HandlerSpans
from relevo.engine.events.event_log import EventLog
from relevo.engine.job.job import Job
from relevo.engine.settling.delivery import Delivery, HeldDeliveries
from relevo.engine.settling.outcome_policy import OutcomePolicy
from relevo.engine.settling.settle_request import SettleContext
from relevo.engine.settling.settler import Settler
from relevo.errors import RateLimited, UnrecoverableError
from relevo.wire.dead import DeadLetterFields
from relevo.wire.envelope import Envelope
from relevo.wire.retry import RetryDefaults
from tests.patience import forever, turn, until
from tests.support.fake_server import KEYS, FakeServer


class Outcomes(Settler):
    """A settler that keeps what it is told, and sends nothing."""

    def __init__(self, context: SettleContext) -> None:
        super().__init__(context)
        self.ends: list[tuple[str, str]] = []

    def finished(self, delivery: Delivery, result: bytes, *, cancelled: bool = False) -> None:
        self.ends.append((delivery.envelope.id, "cancelled" if cancelled else "done"))

    def retry(
        self, delivery: Delivery, wait_ms: int, member: bytes, failure: bytes = b"", *, parked: bool = False
    ) -> None:
        self.ends.append((delivery.envelope.id, f"parked {wait_ms}" if parked else "retry"))

    def dead_letter(self, delivery: Delivery, letter: DeadLetterFields, attempt: int) -> None:
        self.ends.append((delivery.envelope.id, letter.reason))


class RunnerAlone:
    """A runner of `slots`, whose handler the test writes."""

    def __init__(self, handler: Callable[[Job], Awaitable[Any]], slots: int = 3) -> None:
        self.server = FakeServer()
        link, events, self.held = self.server.link(), EventLog(KEYS, enabled=False), HeldDeliveries(idle_s=30)
        self.settler = Outcomes(SettleContext(link, KEYS, "default", "me", self.held, events, 60, 100))
        self.queue = RunQueue(slots)
        self.cancels = CancelWatch(link, KEYS)
        policy = OutcomePolicy(self.settler, events, queue="q", max_attempts=3, retry=RetryDefaults())
        spans = HandlerSpans("q", "default", "me", None)
        self.runner = Runner(
            handler, self.queue, KEYS, self.held, policy, self.cancels, store_results=False, spans=spans
        )
        self.runner.start()

    def put(self, *numbers: int, attempt: int = 0) -> list[Delivery]:
        made = [self._made(at, time.monotonic(), attempt) for at in numbers]
        self.queue.put(made)
        return made

    def _made(self, number: int, leased_at: float, attempt: int = 0) -> Delivery:
        made = Delivery(b"%d-0" % number, Envelope(str(number), b"\xc0", 1, attempt), "job", 0, leased_at)
        self.held.hold(made)
        return made

    def lapsed(self, number: int) -> Delivery:
        """One that has been held for longer than a lease lasts; not in the line yet."""
        return self._made(number, time.monotonic() - self.held.idle_s - 1)

    async def ended(self, count: int = 1) -> list[tuple[str, str]]:
        await until(lambda: len(self.settler.ends) >= count)
        return self.settler.ends

    @staticmethod
    def slots() -> int:
        return sum(task.get_name() == "relevo-slot" for task in asyncio.all_tasks())


MakeRunnerAlone = Callable[..., RunnerAlone]


@pytest.fixture
async def alone_of() -> AsyncGenerator[MakeRunnerAlone]:
    made: list[RunnerAlone] = []

    def make(handler: Callable[[Job], Awaitable[Any]], slots: int = 3) -> RunnerAlone:
        made.append(RunnerAlone(handler, slots))
        return made[-1]

    yield make
    for alone in made:
        await alone.runner.finish(0)


async def nothing(_: Job) -> None:
    return


class Gate:
    """A handler that waits until it is let through."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.open = asyncio.Event()

    async def __call__(self, job: Job) -> None:
        self.inside.append(job.id)
        await self.open.wait()


async def test_handlers_that_never_wait_are_run_by_one_slot(alone_of: MakeRunnerAlone) -> None:
    alone = alone_of(nothing, slots=50)
    alone.put(*range(100))
    assert await alone.ended(100) == [(str(number), "done") for number in range(100)]
    assert alone.slots() <= 2, "one that ran, and the spare"


async def test_handlers_that_wait_get_a_slot_each_up_to_the_concurrency(alone_of: MakeRunnerAlone) -> None:
    gate = Gate()
    alone = alone_of(gate)
    alone.put(1, 2, 3, 4, 5)
    await until(lambda: len(gate.inside) == 3)
    for _ in range(5):
        await turn()
    assert (gate.inside, len(alone.runner.running), len(alone.queue.line)) == (["1", "2", "3"], 3, 2)
    gate.open.set()
    assert len(await alone.ended(5)) == 5
    assert (alone.slots(), len(alone.runner.running)) == (3, 0)


async def test_what_has_lost_its_lease_does_not_start_until_it_is_known_whose_it_is(alone_of: MakeRunnerAlone) -> None:
    """A process that was stopped for a while once started up to a hundred jobs that others ran or had finished."""
    alone = alone_of(nothing)
    ours, theirs, fresh = alone.lapsed(1), alone.lapsed(2), alone.put(3)
    alone.queue.put([ours, theirs])
    assert await alone.ended() == [("3", "done")]
    await until(lambda: not alone.queue.line)
    assert len(alone.held) == 3, "nothing is given up before it is known"
    ours.leased_at, theirs.lost = time.monotonic(), True  # what the lease keeper finds out
    alone.queue.leases_renewed()
    assert await alone.ended(2) == [("3", "done"), ("1", "done")]
    await until(lambda: theirs.entry_id not in alone.held)
    assert fresh[0].started


async def test_a_worker_that_leaves_hands_back_what_it_was_in_doubt_about(alone_of: MakeRunnerAlone) -> None:
    alone = alone_of(nothing)
    lapsed = alone.lapsed(1)
    alone.queue.put([lapsed])
    await until(lambda: not alone.queue.line)
    assert (alone.queue.demand().waiting, alone.queue.take_unstarted()) == (1, [lapsed])


async def test_what_comes_while_handlers_wait_is_started_by_the_spare_slot(alone_of: MakeRunnerAlone) -> None:
    gate = Gate()
    alone = alone_of(gate)
    for number in (1, 2, 3):
        alone.put(number)
        await until(lambda number=number: len(gate.inside) == number)
        for _ in range(3):
            await turn()
    assert alone.slots() == 3


async def test_a_long_line_lets_others_have_their_turn(alone_of: MakeRunnerAlone) -> None:
    async def busy(_: Job) -> None:
        ends = time.perf_counter() + 0.006  # longer than a turn: every job ends it
        while time.perf_counter() < ends:
            pass

    alone = alone_of(busy)
    alone.put(*range(10))
    seen: list[int] = []
    while len(alone.settler.ends) < 10:
        await turn()
        seen.append(len(alone.settler.ends))
    assert len(set(seen)) >= 5, "others were let in between"


async def test_an_idle_slot_asks_for_more(alone_of: MakeRunnerAlone) -> None:
    alone = alone_of(nothing)
    alone.queue.room.clear()
    alone.put(1)
    await alone.ended()
    await until(alone.queue.room.is_set)


@pytest.mark.parametrize(
    ("error", "attempt", "end"),
    [
        (ValueError("no"), 0, "retry"),
        (ValueError("no"), 2, "retries_exhausted"),
        (UnrecoverableError("never"), 0, "unrecoverable"),
        (RateLimited(retry_after_s=7), 0, "parked 7000"),
        (SystemExit(1), 0, "retry"),
        (asyncio.CancelledError(), 0, "retry"),
    ],
    ids=["fails", "fails-for-the-last-time", "unrecoverable", "told-to-come-later", "exits", "cancels-itself"],
)
async def test_a_run_that_ends_badly(alone_of: MakeRunnerAlone, error: BaseException, attempt: int, end: str) -> None:
    async def fail(_: Job) -> None:
        raise error

    alone = alone_of(fail)
    alone.put(1, attempt=attempt)
    assert await alone.ended() == [("1", end)]
    alone.put(2)
    assert (await alone.ended(2))[1][0] == "2", "the slot lives on"


async def test_a_job_that_came_with_no_attempts_left_never_starts(alone_of: MakeRunnerAlone) -> None:
    gate = Gate()
    alone = alone_of(gate)
    alone.put(1, attempt=3)
    assert await alone.ended() == [("1", "retries_exhausted")]
    assert gate.inside == []


async def test_what_another_worker_has_taken_over_does_not_start(alone_of: MakeRunnerAlone) -> None:
    gate = Gate()
    alone = alone_of(gate)
    (delivery,) = alone.put(1)
    delivery.lost = True
    alone.put(2)
    await until(lambda: gate.inside == ["2"])
    assert b"1-0" not in alone.held


async def test_a_running_job_that_is_marked_is_cancelled_and_its_slot_lives_on(alone_of: MakeRunnerAlone) -> None:
    async def wait(job: Job) -> None:
        if job.id == "1":
            await forever()
        raise asyncio.CancelledError  # the handler's own doing: only a slot that is being stopped takes it for its end

    alone = alone_of(wait, slots=1)
    alone.put(1)
    await until(lambda: len(alone.runner.running) == 1)
    alone.server.on |= {"ZRANGEBYSCORE": [b"1"], "ZSCORE": None}
    await alone.cancels.tick()
    assert await alone.ended() == [("1", "cancelled")]
    alone.put(2)
    assert await alone.ended(2) == [("1", "cancelled"), ("2", "retry")]


@pytest.mark.parametrize(("mark", "end"), [(b"1", "cancelled"), (None, "done")], ids=["marked", "no-longer-marked"])
async def test_a_marked_job_is_asked_for_again_before_it_starts(
    alone_of: MakeRunnerAlone, mark: bytes | None, end: str
) -> None:
    alone = alone_of(nothing)
    alone.server.on |= {"ZRANGEBYSCORE": [b"1"], "ZSCORE": mark}
    await alone.cancels.tick()
    alone.put(1, 2)
    assert sorted(await alone.ended(2)) == [("1", end), ("2", "done")]
    assert len(alone.server.asked("ZSCORE")) == 1


async def test_a_run_that_takes_too_long_is_failed(alone_of: MakeRunnerAlone) -> None:
    async def wait(_: Job) -> None:
        await forever()

    alone = alone_of(wait)
    alone.put(1)
    await until(lambda: len(alone.runner.running) == 1)
    assert alone.runner.expire(time.perf_counter() - 100, 100) == 0
    assert alone.runner.expire(time.perf_counter() + 1, 1) == 1
    assert await alone.ended() == [("1", "retry")]


async def test_at_the_end_running_handlers_may_finish_and_others_are_handed_back(alone_of: MakeRunnerAlone) -> None:
    gate = Gate()
    alone = alone_of(gate, slots=2)
    alone.put(1, 2, 3)
    await until(lambda: len(gate.inside) == 2)
    assert [each.envelope.id for each in alone.queue.take_unstarted()] == ["3"]
    gate.open.set()
    assert await alone.runner.finish(10) == []
    assert alone.settler.ends == [("1", "done"), ("2", "done")]


async def test_what_does_not_end_in_time_is_cancelled_and_handed_back(alone_of: MakeRunnerAlone) -> None:
    async def wait(_: Job) -> None:
        await forever()

    alone = alone_of(wait)
    alone.put(1)
    await until(lambda: len(alone.runner.running) == 1)
    assert [each.envelope.id for each in await alone.runner.finish(0.01)] == ["1"]
    assert alone.settler.ends == []
