"""Writes that arrive once: adds of one turn together, a lost answer judged by the number the server kept."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from relevo.broker.resp import ReplyError
from relevo.engine.job.add_options import AddOptions
from relevo.engine.producing import stream_writer
from relevo.engine.producing.job_encoder import JobEncoder
from relevo.engine.producing.scripted_adds import SCRIPTS, ScriptedAdds
from relevo.engine.producing.stream_writer import ADD_CAPPED, StreamWriter
from relevo.errors import ConnectionLost, QueueFull, ServerRefused
from relevo.wire.limits import QueueLimits
from relevo.wire.payload import MSGPACK
from tests.pace import limit
from tests.patience import turn, until
from tests.support.fake_server import KEYS, FakeServer

CAP = 1_000_000


def entries(*names: str) -> list[tuple[bytes, bytes]]:
    return [(b"envelope of " + name.encode(), name.encode()) for name in names]


class Producer:
    """A writer whose server keeps what arrived, as Redis would."""

    def __init__(self, server: FakeServer, cap: int = CAP) -> None:
        self.server = server
        self.link = server.link(ADD_CAPPED, *SCRIPTS)
        self.writer = StreamWriter(self.link, KEYS, ScriptedAdds(self.link, KEYS, cap=cap, wait_s=5), cap=cap)
        self.encoder = JobEncoder(MSGPACK, QueueLimits())
        server.on |= {"XLEN": 0, "EXEC": [b"1-1", b"OK"], "MGET": [None] * 4, "EVALSHA": lambda _: [1, b"1"]}

    async def ready(self) -> None:
        """Opens the connection and lets the writer learn how long the stream is."""
        await self.link.ready()
        await self.writer.add(entries("first"))
        self.server.seen.clear()

    def numbers(self) -> list[int]:
        """The numbers of the writes that were sent."""
        return [int(each[2]) for each in self.server.asked("SET")]


@pytest.fixture
async def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    monkeypatch.setattr(stream_writer, "FRESH", 3600.0)  # however busy the machine is
    made = Producer(FakeServer())
    await made.ready()
    return made


async def test_adds_of_one_turn_leave_in_one_write(producer: Producer) -> None:
    await asyncio.gather(*(producer.writer.add(entries(name)) for name in "abc"))
    words = [each[0].decode() for each in producer.server.seen]
    assert words == ["XLEN", "MULTI", "XADD", "XADD", "XADD", "SET", "EXEC"]
    assert [each[-1] for each in producer.server.asked("XADD")] == [b"a", b"b", b"c"]


async def test_a_job_without_a_name_has_no_field_for_it(producer: Producer) -> None:
    await producer.writer.add([(b"envelope", b"")])
    assert producer.server.asked("XADD") == [[b"XADD", KEYS.stream, b"*", b"d", b"envelope"]]


async def test_three_writes_are_under_way_at_most(producer: Producer) -> None:
    producer.server.holds = True
    adds = [producer.writer.add(entries(*["x"] * 100)) for _ in range(5)]
    await turn()
    assert len(producer.numbers()) == 3
    producer.server.holds = False
    producer.server.let_go(10_000)
    await asyncio.gather(*adds)
    assert len(producer.numbers()) == len(set(producer.numbers())) == 4  # the last two left together


async def test_a_long_call_is_sent_in_parts_and_is_done_with_the_last(producer: Producer) -> None:
    producer.server.holds = True
    add = producer.writer.add(entries(*["x"] * 4500))
    await turn()
    sizes = [0]
    for each in producer.server.seen:
        sizes[-1] += each[0] == b"XADD"
        sizes += [0] if each[0] == b"EXEC" else []
    assert sizes[:-1] == [2000, 2000, 500]
    producer.server.let_go(2000 + 4)
    await turn()
    assert not add.done()
    producer.server.let_go(10_000)
    await add


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_write_whose_answer_was_lost_is_sent_again_only_if_it_did_not_arrive(
    producer: Producer, arrived: bool
) -> None:
    producer.server.holds = True
    add = producer.writer.add(entries("a"))
    await until(lambda: len(producer.server.waiting) == 5)
    (number,) = producer.numbers()
    producer.server.on["MGET"] = [None, b"%d" % (number if arrived else number - 1), None, None]
    producer.server.holds = False
    producer.server.drop()
    await add
    assert len(producer.server.asked("XADD")) == (1 if arrived else 2)
    assert producer.numbers() == [number] if arrived else [number, number + 1]


@pytest.mark.parametrize("landed", [0, 1])
async def test_of_two_lost_writes_only_the_one_that_did_not_land_is_sent_again(producer: Producer, landed: int) -> None:
    """The server may refuse the first and take the second: one number for both once vouched for the first."""
    producer.server.holds = True
    adds = [producer.writer.add(entries(*[name] * 100)) for name in "ab"]
    await turn()
    producer.server.on["MGET"] = [None, None, b"%d" % producer.numbers()[landed], None]
    producer.server.holds = False
    producer.server.drop()
    await asyncio.gather(*adds)
    assert {each[-1] for each in producer.server.asked("XADD")[200:]} == {b"ba"[landed : landed + 1]}


async def test_what_nobody_foresaw_after_a_loss_is_told_and_adds_go_on(producer: Producer) -> None:
    """A mark that is no number, say: callers waited for ever, for the task that answers them was gone."""
    producer.server.holds = True
    add = producer.writer.add(entries("a"))
    await until(lambda: len(producer.server.waiting) == 5)
    producer.server.on["MGET"] = [b"no number", None, None, None]
    producer.server.holds = False
    producer.server.drop()
    with pytest.raises(ValueError, match="no number"):
        await asyncio.wait_for(add, limit(20))
    await producer.writer.add(entries("b"))


async def test_a_refusal_inside_the_write_reaches_its_callers_and_no_others(producer: Producer) -> None:
    replies = iter([[ReplyError("WRONGTYPE of stream"), b"OK"], [b"1-1", b"OK"]])
    producer.server.on["EXEC"] = lambda _: next(replies)
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await producer.writer.add(entries("a"))
    await producer.writer.add(entries("b"))


async def test_a_queue_that_moved_is_followed(producer: Producer) -> None:
    replies = iter([ReplyError("EXECABORT Transaction discarded"), [b"1-1", b"OK"]])
    producer.server.on["XADD"] = lambda _: ReplyError("READONLY a replica") if producer.server.holds else b"QUEUED"
    producer.server.holds = True
    add = producer.writer.add(entries("a"))
    await until(lambda: len(producer.server.waiting) == 5)
    producer.server.on["EXEC"] = lambda _: next(replies)
    producer.server.let_go(5)
    producer.server.holds = False
    await add
    assert len(producer.server.asked("XADD")) == 2


async def test_near_its_cap_a_script_counts_and_judges_each_call(producer: Producer) -> None:
    near = Producer(producer.server, cap=10)
    near.server.on["EVALSHA"] = lambda _: [10, b"10"]
    fits, full = near.writer.add(entries("a")), near.writer.add(entries("b"))
    await fits
    with pytest.raises(QueueFull):
        await full
    assert near.server.asked("XADD") == []


async def test_a_closed_link_fails_what_waits(producer: Producer) -> None:
    producer.server.holds = True
    add = producer.writer.add(entries("a"))
    await until(lambda: len(producer.server.waiting) == 5)
    await producer.link.close()
    with pytest.raises(ConnectionLost):
        await add


# --- which way in -----------------------------------------------------------------------------------------------------


def encoded(producer: Producer, **options: Any) -> Any:
    return producer.encoder.encode("job", 1, AddOptions(**options))


def scripts_run(producer: Producer) -> list[str]:
    known = {each.call(producer.link.capabilities, [], []).split(b"\r\n")[4].decode(): each.name for each in SCRIPTS}
    return [known[each[1].decode()] for each in producer.server.asked("EVALSHA")]


async def test_plain_jobs_are_written_and_others_go_by_script(producer: Producer) -> None:
    producer.server.on["EVALSHA"] = 1
    await producer.writer.send([encoded(producer), encoded(producer, delay_ms=5000), encoded(producer, lane="a")])
    assert len(producer.server.asked("XADD")) == 1
    assert len(producer.server.asked("ZADD")) == 1
    assert scripts_run(producer) == ["add_noted"]


async def test_beside_an_id_of_the_caller_one_script_decides_for_all(producer: Producer) -> None:
    producer.server.on["EVALSHA"] = 1
    await producer.writer.send([encoded(producer), encoded(producer, job_id="order-1")])
    assert producer.server.asked("XADD") == []
    assert scripts_run(producer) == ["add_once"]


async def test_attempts_alone_need_no_script(producer: Producer) -> None:
    await producer.writer.send([encoded(producer, attempts=3)])
    assert (len(producer.server.asked("XADD")), scripts_run(producer)) == (1, [])


def _as_it_is(add: Any) -> Any:
    return add


@pytest.mark.parametrize(
    "use", [asyncio.ensure_future, asyncio.create_task, _as_it_is], ids=["future", "task", "await"]
)
async def test_an_add_begins_when_it_is_wanted_and_not_before(producer: Producer, use: Callable[[Any], Any]) -> None:
    job, entry = producer.encoder.encode_plain("job", 1)
    add = producer.writer.add_one(job, entry)
    await turn()
    assert producer.server.seen == []
    assert await use(add) is job
    assert len(producer.server.asked("XADD")) == 1


async def test_an_add_that_nobody_wants_warns(producer: Producer) -> None:
    job, entry = producer.encoder.encode_plain("job", 1)
    with pytest.warns(RuntimeWarning, match="the add of job 'job' to queue 'q' was never awaited"):
        producer.writer.add_one(job, entry)
