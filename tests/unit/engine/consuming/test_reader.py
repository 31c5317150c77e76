"""Reading: what is asked for and when, what becomes of entries that cannot run, and of answers that never arrive."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from relevo.broker.resp import Reply
from relevo.engine.consuming.group_member import GroupMember
from relevo.engine.consuming.reader import RECLAIM, TAKE_UP, Reader
from relevo.engine.consuming.run_queue import RunQueue
from relevo.engine.events.event_log import EventLog
from relevo.engine.settling import outage
from relevo.engine.settling.delivery import Delivery, HeldDeliveries
from relevo.engine.settling.settle_request import SettleContext
from relevo.engine.settling.settler import Settler
from relevo.wire.dead import DeadLetterFields
from relevo.wire.envelope import Envelope
from relevo.wire.notes import Notes
from tests.patience import turn, until
from tests.support.fake_server import KEYS, SILENCE, Command, FakeServer

MOST_STALLED = 2


class Letters(Settler):
    """A settler that keeps what it is told, and sends nothing."""

    def __init__(self, context: SettleContext) -> None:
        super().__init__(context)
        self.letters: list[tuple[str, str]] = []
        self.slow = False

    @property
    def behind(self) -> bool:
        return self.slow

    def dead_letter(self, delivery: Delivery, letter: DeadLetterFields, attempt: int) -> None:
        self.letters.append((delivery.entry_id.decode(), letter.reason))


class ReaderAlone:
    """A reader of a stream that has what the test gives it, and then blocks."""

    def __init__(self, *, modern: bool = True, slots: int = 10, block_ms: int = 5000, idle_s: float = 30) -> None:
        self.server = FakeServer(modern=modern)
        self.link = self.server.link(RECLAIM, TAKE_UP)
        self.held = HeldDeliveries(idle_s=idle_s)
        self.queue = RunQueue(slots)
        events = EventLog(KEYS, enabled=False)
        self.settler = Letters(SettleContext(self.link, KEYS, "default", "me", self.held, events, 60, 100))
        member = GroupMember(self.server.link(), KEYS, "default", "me", self.held, self.settler)
        self.reader = Reader(
            self.link,
            KEYS,
            "default",
            "me",
            self.held,
            self.queue,
            member,
            self.settler,
            events,
            count=None,
            block_ms=block_ms,
            max_payload=1000,
            max_stalled=MOST_STALLED,
        )
        self.got: list[Delivery] = []
        self.server.on |= {
            "XREADGROUP": SILENCE,
            "HLEN": 0,
            "EVALSHA": [],
            "HMGET": lambda asked: [None] * (len(asked) - 2),
        }

    async def takes(self, count: int) -> None:
        """Until so many deliveries are in line; takes them, as slots would."""
        await until(lambda: len(self.queue.line) >= count)
        self.got += self.queue.line
        self.queue.line.clear()
        self.queue.freed()

    async def blocked(self) -> None:
        """Until the reader waits for the server, which it asked last."""
        await until(lambda: any(each[0] == b"XREADGROUP" for each in self.server.waiting))

    async def gives(self, *entries: Reply) -> None:
        """Answers the read under way, and lets the next one block."""
        await self.blocked()
        batches = self.reader.batches.count
        self.server.on["XREADGROUP"] = [[KEYS.stream, list(entries)]] if entries else None
        self.server.let_go(2)
        self.server.on["XREADGROUP"] = SILENCE
        if entries:
            await until(lambda: self.reader.batches.count > batches)

    def asked_for(self) -> list[int]:
        """How many entries each read asked for."""
        return [int(each[each.index(b"COUNT") + 1]) for each in self.server.asked("XREADGROUP")]


def entry(number: int, *, data: bytes | None = None, name: bytes = b"job", before: int = 0) -> Reply:
    envelope = Envelope(f"job-{number}", b"\xc0", 1).encode() if data is None else data
    return [b"%d-0" % number, [b"d", envelope, b"n", name], 0, before]


@pytest.fixture
async def alone() -> AsyncGenerator[ReaderAlone]:
    made = ReaderAlone()
    made.reader.start()
    yield made
    await made.link.close()
    await made.reader.stop()


async def test_it_makes_the_group_and_reads_what_the_slots_can_use(alone: ReaderAlone) -> None:
    await alone.blocked()
    assert alone.server.seen[0] == [b"XGROUP", b"CREATE", KEYS.stream, b"default", b"0", b"MKSTREAM"]
    assert alone.asked_for() == [10]
    await alone.gives(entry(1), entry(2))
    await alone.takes(2)
    assert [(each.envelope.id, each.name) for each in alone.got] == [("job-1", "job"), ("job-2", "job")]
    assert list(alone.held) == [b"1-0", b"2-0"]


async def test_with_a_full_line_it_waits_for_room(alone: ReaderAlone) -> None:
    await alone.gives(*(entry(number) for number in range(10)))
    await turn()
    reads = len(alone.asked_for())
    alone.queue.running |= dict.fromkeys(alone.queue.line)
    alone.queue.line.clear()
    alone.queue.freed()
    for _ in range(5):
        await turn()
    assert len(alone.asked_for()) == reads, "all slots are taken"
    alone.queue.running.clear()
    alone.queue.freed()
    await until(lambda: len(alone.asked_for()) > reads)


async def test_it_reads_nothing_while_paused_and_goes_on_when_resumed() -> None:
    alone = ReaderAlone()
    alone.queue.pause()
    alone.reader.start()
    await until(lambda: alone.reader.joined.count == 1)
    for _ in range(5):
        await turn()
    assert alone.asked_for() == []
    alone.queue.resume()
    await alone.blocked()
    await alone.link.close()
    await alone.reader.stop()


async def test_it_reads_nothing_while_the_server_is_slow_to_settle() -> None:
    alone = ReaderAlone()
    alone.settler.slow = True
    alone.reader.start()
    await until(lambda: alone.reader.joined.count == 1)
    for _ in range(5):
        await turn()
    assert alone.asked_for() == []
    alone.settler.slow = False
    alone.queue.freed()
    await alone.blocked()
    await alone.link.close()
    await alone.reader.stop()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (entry(1, data=b"\xc1"), "decode_failed"),
        (entry(1, data=b"x" * 1001), "oversize_payload"),
        (entry(1, name=b"\xff"), "malformed"),
        ([b"1-0", [b"x", b"y"], 0, 0], "malformed"),
        (entry(1, before=MOST_STALLED), "stalled"),
    ],
    ids=["no-envelope", "too-large", "no-name", "no-job", "killed-its-workers"],
)
async def test_what_can_never_run_goes_to_the_dead_letters(alone: ReaderAlone, given: Reply, reason: str) -> None:
    await alone.gives(given, entry(2))
    assert alone.settler.letters == [("1-0", reason)]
    assert [each.entry_id for each in alone.queue.line] == [b"2-0"]


async def test_a_job_of_a_dead_worker_runs_here(alone: ReaderAlone) -> None:
    await alone.gives(entry(1, before=1))
    assert [each.before for each in alone.queue.line] == [1]
    assert alone.reader.batches.last is not None
    assert alone.reader.batches.last.reclaimed == 1


async def test_our_own_entry_read_again_is_the_delivery_that_we_hold(alone: ReaderAlone) -> None:
    await alone.gives(entry(1))
    await alone.takes(1)
    (mine,) = alone.got
    mine.lost, before = True, mine.leased_at
    await alone.gives(entry(1, before=1), entry(2))
    await alone.takes(1)
    assert alone.held[b"1-0"] is mine
    assert (mine.lost, mine.leased_at > before) == (False, True)
    assert [each.entry_id for each in alone.got] == [b"1-0", b"2-0"]


async def test_notes_are_fetched_when_there_are_any(alone: ReaderAlone) -> None:
    alone.server.on |= {"HLEN": 1, "HMGET": [Notes(lane="tenant").encode(), None]}
    await alone.gives(entry(1), entry(2))
    await until(lambda: len(alone.queue.line) == 2)
    assert [each.notes for each in alone.queue.line] == [Notes(lane="tenant"), None]
    assert alone.server.asked("HMGET") == [[b"HMGET", KEYS.notes, b"job-1", b"job-2"]]


async def test_after_a_lost_answer_it_takes_up_what_the_server_gave_it(alone: ReaderAlone) -> None:
    await alone.gives(entry(1))
    await alone.takes(1)
    await alone.blocked()
    pending = iter([[entry(1), entry(2)], []])
    alone.server.on["EVALSHA"] = lambda _: next(pending)
    alone.server.drop()
    await alone.takes(1)
    assert [each.entry_id for each in alone.got] == [b"1-0", b"2-0"], "the first is held, and is not run twice"


async def test_a_server_without_claim_is_asked_by_script_for_what_others_left() -> None:
    alone = ReaderAlone(modern=False)
    found: list[Reply] = [[], [entry(1, before=1)]]
    alone.server.on["EVALSHA"] = lambda _: found.pop() if found else []
    alone.reader.start()
    await alone.takes(1)
    assert alone.got[0].before == 1
    await alone.blocked()
    assert b"CLAIM" not in alone.server.asked("XREADGROUP")[0]
    await alone.link.close()
    await alone.reader.stop()


async def test_an_empty_read_after_work_says_that_the_stream_is_drained(alone: ReaderAlone) -> None:
    await alone.gives(entry(1))
    await alone.takes(1)
    drained = asyncio.ensure_future(alone.reader.drained.wait_for())
    await turn()
    await alone.gives()
    await drained


async def test_it_wakes_its_blocked_read_when_it_stops(alone: ReaderAlone) -> None:
    """Otherwise the server would give the next job to a worker that has left."""

    def unblock(_: Command) -> Reply:
        alone.server.on["XREADGROUP"] = None
        asyncio.get_running_loop().call_soon(alone.server.let_go, 2)
        return 1

    await alone.blocked()
    alone.server.on["CLIENT"] = unblock
    await alone.reader.stop()
    assert alone.server.asked("CLIENT") == [[b"CLIENT", b"UNBLOCK", b"%d" % alone.link.client_id, b"TIMEOUT"]]
    assert len(alone.asked_for()) == 1


async def test_a_read_without_an_answer_is_overdue_once_it_should_have_come() -> None:
    alone = ReaderAlone(block_ms=1)
    alone.reader.start()
    await alone.blocked()
    await until(lambda: alone.reader.overdue_s > 0)
    await alone.gives(entry(1))
    await alone.takes(1)
    await alone.blocked()
    alone.server.drop()
    await alone.reader.stop()
    assert alone.reader.overdue_s == 0, "nothing is under way"


async def test_outages_of_redis_are_no_deaths_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases ran out while nobody could renew them, and whoever read first took what others ran: after three restarts of Redis
    a job was dead as `stalled` while it ran."""
    alone = ReaderAlone(idle_s=0.03)
    alone.reader.start()
    await alone.blocked()
    assert b"CLAIM" in alone.server.asked("XREADGROUP")[-1]
    alone.server.away = True
    alone.server.drop()
    await until(lambda: alone.link.down_for > 0.02)
    seen, alone.server.away = len(alone.server.asked("XREADGROUP")), False
    await until(lambda: len(alone.server.asked("XREADGROUP")) > seen)
    assert b"CLAIM" not in alone.server.asked("XREADGROUP")[-1], "those that live have to be heard first"
    monkeypatch.setattr(outage, "RETURN_S", 0.0)
    monkeypatch.setattr(alone.reader, "_reclaim_due", 0.0)
    await alone.gives()
    await until(lambda: b"CLAIM" in alone.server.asked("XREADGROUP")[-1])
    alone.server.drop()
    await alone.reader.stop()
