"""What a worker says of its deliveries: many in one write, again after a loss, by script where the lease is in doubt."""

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest

from relevo.broker.resp import ReplyError
from relevo.engine.events.event_log import EventLog
from relevo.engine.settling.delivery import Delivery, HeldDeliveries
from relevo.engine.settling.settle_request import RETRY, SCRIPTS, SETTLE, SettleContext, SettleResult
from relevo.engine.settling.settler import Settler
from relevo.wire.dead import DeadLetterFields, Reason
from relevo.wire.envelope import Envelope
from tests.patience import turn, until
from tests.support.fake_server import KEYS, Command, FakeServer

OWNER = 4 + 4 + 2
"""Where a call of `SETTLE` has the owner: behind EVALSHA, the hash, the number of keys, four keys, the tag and the group."""


class SettlerAlone:
    """A settler and the deliveries it holds, before a server that takes everything."""

    def __init__(self, server: FakeServer, *, events: bool = False, frees_places: bool = False) -> None:
        self.server = server
        self.held = HeldDeliveries(idle_s=30)
        self.link = server.link(*SCRIPTS)
        self.context = SettleContext(
            self.link,
            KEYS,
            "default",
            "me",
            self.held,
            EventLog(KEYS, enabled=events),
            60,
            100,
            frees_places=frees_places,
        )
        self.settler = Settler(self.context)
        server.on |= {
            "XACKDEL": lambda asked: [1] * (len(asked) - 5),
            "EVALSHA": lambda asked: [1] * self.settled_by(asked),
            "EXEC": [1, 1],
        }

    def settled_by(self, asked: Command) -> int:
        """How many entries a script call is about: each is one that is held."""
        return len(self.held.keys() & set(asked))

    def delivery(self, number: int = 1, *, age_s: float = 0.0, attempt: int = 0) -> Delivery:
        envelope = Envelope(f"job-{number}", b"\xc0", 1, attempt)
        delivery = Delivery(b"%d-0" % number, envelope, "job", 0, time.monotonic() - age_s)
        self.held.hold(delivery)
        return delivery

    async def settled(self) -> SettleResult:
        return await self.settler.settled.wait_for()

    def scripts(self) -> list[str]:
        shas = {each.call(self.link.capabilities, [], []).split(b"\r\n")[4]: each.name for each in SCRIPTS}
        return [shas[each[1]] for each in self.server.asked("EVALSHA")]


@pytest.fixture
async def alone() -> AsyncGenerator[SettlerAlone]:
    made = SettlerAlone(FakeServer())
    made.settler.start()
    yield made
    made.server.holds = False
    made.server.let_go(1000)
    await made.settler.stop(wait_s=1)


async def test_what_ran_in_one_turn_is_settled_in_one_command(alone: SettlerAlone) -> None:
    for number in range(3):
        alone.settler.done(alone.delivery(number), b"", 0.1)
    assert (await alone.settled()).done == 3
    assert alone.server.seen == [[b"XACKDEL", KEYS.stream, b"default", b"IDS", b"3", b"0-0", b"1-0", b"2-0"]]
    assert not alone.held


async def test_what_is_handed_in_meanwhile_leaves_with_the_next(alone: SettlerAlone) -> None:
    await alone.link.ready()
    alone.server.holds = True
    alone.settler.done(alone.delivery(1), b"", 0.1)
    await until(lambda: len(alone.server.waiting) == 1)
    for number in (2, 3):
        alone.settler.done(alone.delivery(number), b"", 0.1)
        await turn()
    assert len(alone.server.seen) == 1
    alone.server.holds = False
    alone.server.let_go()
    await until(lambda: not alone.held)
    assert [each[5:] for each in alone.server.seen] == [[b"1-0"], [b"2-0", b"3-0"]]


async def test_a_result_is_stored_in_the_step_that_settles(alone: SettlerAlone) -> None:
    alone.settler.done(alone.delivery(), b"result", 0.1)
    assert (await alone.settled()).done == 1
    assert [each[0] for each in alone.server.seen] == [b"MULTI", b"SET", b"XACKDEL", b"EXEC"]
    assert alone.server.asked("SET") == [[b"SET", KEYS.result("job-1"), b"result", b"EX", b"60"]]


async def test_an_older_server_acks_and_deletes_in_one_transaction() -> None:
    alone = SettlerAlone(FakeServer(modern=False))
    alone.settler.start()
    alone.settler.done(alone.delivery(), b"", 0.1)
    assert (await alone.settled()).done == 1
    assert [each[0] for each in alone.server.seen] == [b"MULTI", b"XACK", b"XDEL", b"EXEC"]
    assert await alone.settler.stop(wait_s=1)


@pytest.mark.parametrize(("age_s", "owner"), [(0.0, b""), (20.0, b"me")], ids=["fresh", "old"])
async def test_the_owner_is_asked_for_when_the_lease_may_have_lapsed(
    alone: SettlerAlone, age_s: float, owner: bytes
) -> None:
    letter = DeadLetterFields(b"", "job", "1-0", Reason.UNRECOVERABLE, "no")
    alone.settler.dead_letter(alone.delivery(age_s=age_s), letter, 1)
    assert (await alone.settled()).dead == 1
    assert alone.server.asked("EVALSHA")[0][OWNER - 1] == owner


async def test_a_finished_job_of_an_old_lease_is_settled_by_script(alone: SettlerAlone) -> None:
    alone.settler.done(alone.delivery(1, age_s=20.0), b"", 0.1)
    alone.settler.done(alone.delivery(2), b"", 0.1)
    assert (await alone.settled()).done == 2
    assert [each[5:] for each in alone.server.asked("XACKDEL")] == [[b"2-0"]]
    assert alone.scripts() == [SETTLE.name]


async def test_what_another_worker_has_is_counted_as_lost(alone: SettlerAlone) -> None:
    alone.server.on["EVALSHA"] = [0]
    alone.settler.done(alone.delivery(age_s=20.0), b"", 0.1)
    settled = await alone.settled()
    assert (settled.done, settled.lost) == (0, 1)


async def test_retries_and_parked_jobs_go_their_own_ways(alone: SettlerAlone) -> None:
    alone.settler.retry(alone.delivery(1), 250, b"member", b"failure")
    alone.settler.retry(alone.delivery(2), 100, b"member", parked=True)
    settled = await alone.settled()
    assert (settled.retried, settled.parked, settled.due_in_ms) == (1, 1, 250)
    assert alone.scripts() == [RETRY.name, SETTLE.name]


async def test_parked_jobs_are_handed_over_from_the_last_on(alone: SettlerAlone) -> None:
    """Each goes to the head of its lane: the first has to come last, over all calls."""
    for number in range(300):
        alone.settler.retry(alone.delivery(number), 100, b"m%d" % number, parked=True)
    await until(lambda: not alone.held)
    members = [part for each in alone.server.asked("EVALSHA") for part in each if part[:1] == b"m" and part != b"me"]
    assert members == [b"m%d" % number for number in reversed(range(300))]


async def test_a_flush_whose_answer_was_lost_is_sent_again(alone: SettlerAlone) -> None:
    await alone.link.ready()
    alone.server.holds = True
    alone.settler.done(alone.delivery(), b"", 0.1)
    await until(lambda: len(alone.server.waiting) == 1)
    alone.server.holds = False
    alone.server.drop()
    assert (await alone.settled()).done == 1
    assert alone.server.asked("XACKDEL")[0] == alone.server.asked("XACKDEL")[1]


async def test_a_full_server_is_asked_again_by_script(alone: SettlerAlone) -> None:
    alone.server.on["EXEC"] = ReplyError("EXECABORT Transaction discarded because of previous errors.")
    alone.settler.done(alone.delivery(), b"result", 0.1)
    await until(lambda: alone.scripts() == [SETTLE.name])
    await until(lambda: not alone.held)
    assert len(alone.server.asked("EXEC")) == 1, "what it refused is not sent again as it was"


async def test_the_failures_of_jobs_that_went_well_in_the_end_are_forgotten(alone: SettlerAlone) -> None:
    alone.settler.done(alone.delivery(1, attempt=2), b"", 0.1)
    alone.settler.done(alone.delivery(2), b"", 0.1)
    await alone.settled()
    assert alone.server.asked("UNLINK") == [[b"UNLINK", KEYS.failure("job-1")]]


async def test_a_limited_queue_gets_its_places_back_with_the_settle() -> None:
    alone = SettlerAlone(FakeServer(), frees_places=True)
    alone.settler.start()
    alone.settler.done(alone.delivery(1), b"", 0.1)
    alone.settler.retry(alone.delivery(2), 10, b"member", b"failure")
    await alone.settled()
    assert alone.server.asked("ZREM") == [[b"ZREM", KEYS.places, b"1-0", b"2-0"]]
    assert await alone.settler.stop(wait_s=1)


async def test_a_good_run_is_told_behind_its_settle() -> None:
    alone = SettlerAlone(FakeServer(), events=True)
    alone.settler.start()
    delivery = alone.delivery()
    alone.settler.started(delivery)
    alone.settler.done(delivery, b"", 0.5)
    await until(lambda: not alone.held)
    told = [each for each in alone.server.asked("XACKDEL", "XADD") if each[0] == b"XACKDEL" or b"e" in each]
    kinds = [each[0] if each[0] == b"XACKDEL" else each[each.index(b"e") + 1] for each in told]
    assert kinds == [b"XACKDEL", b"active", b"completed"]
    assert b"500000" in told[-1]
    assert await alone.settler.stop(wait_s=1)


async def test_a_dead_job_is_told_of_only_when_redis_has_its_letter() -> None:
    alone = SettlerAlone(FakeServer(), events=True)
    alone.settler.start()
    await alone.link.ready()
    alone.server.holds = True
    alone.settler.dead_letter(alone.delivery(), DeadLetterFields(b"", "job", "1-0", Reason.UNRECOVERABLE, "no"), 1)
    await until(lambda: len(alone.server.waiting) == 1)
    assert alone.server.asked("XADD") == []
    alone.server.holds = False
    alone.server.let_go()
    await until(lambda: len(alone.server.asked("XADD")) == 1)
    assert b"dlq" in alone.server.asked("XADD")[0]
    assert await alone.settler.stop(wait_s=1)


async def test_a_server_that_is_slow_to_settle_is_given_no_more_to_read(alone: SettlerAlone) -> None:
    await alone.link.ready()
    alone.server.holds = True
    for number in range(256 * 7):
        alone.settler.done(alone.delivery(number), b"", 0.1)
        if number % 256 == 255:
            await turn()
            await turn()
    assert alone.settler.behind
    alone.server.holds = False
    alone.server.let_go(1000)
    await until(lambda: not alone.held)
    assert not alone.settler.behind


async def test_it_stops_with_everything_said_or_says_that_it_could_not(alone: SettlerAlone) -> None:
    await alone.link.ready()
    alone.settler.done(alone.delivery(), b"", 0.1)
    assert await alone.settler.stop(wait_s=5)
    assert not alone.held
    silent = SettlerAlone(FakeServer())
    silent.server.holds = True
    silent.settler.start()
    silent.settler.done(silent.delivery(), b"", 0.1)
    assert not await silent.settler.stop(wait_s=0.05)
    await asyncio.gather(alone.link.close(), silent.link.close())
