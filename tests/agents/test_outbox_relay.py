"""Events leave the outbox for Redis streams and `_events`: each once, in order for each message."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from relevo.agents import outbox_relay
from relevo.agents.event_streams import EventStreams
from relevo.agents.outbox_relay import OutboxRelay
from relevo.engine.events.queue_events import QueueEvent, QueueEvents
from relevo.errors import EventsOvertaken, ServerRefused
from relevo.wire.keys import REGISTRY, QueueKeys
from relevo.work.queue_record import QueueRecord
from relevo.work.store.outbox import EVENTS, OutboxRow, PackedEvents, encode
from relevo.work.store.tables import messages, outbox
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.conftest import Launch
from tests.pace import limit
from tests.servers.leaks import KeyLeaks
from tests.servers.server import EmbeddedValkey, Server
from tests.support.desk import SCOPE, Desk, a_desk, emptied
from tests.support.stream_entries import entry_of


@pytest.fixture
async def linked(database_url: str, clock: Clock, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Desk]:
    """A desk of an installation with Redis."""
    key_leaks.allow("rw:*")
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, redis_url=valkey.url)
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        yield await a_desk(work_queues, clock)


async def relayed(desk: Desk, **options: Any) -> int:
    """Relays everything there is."""
    relay = OutboxRelay(desk.work_queues, **options)
    try:
        sent = 0
        while (batch := await relay.work()).items:
            sent += batch.items
        return sent
    finally:
        await relay.close()


async def waiting(work_queues: WorkQueues) -> int:
    async with work_queues.database.connect() as connection:
        return (await connection.execute(select(func.count()).select_from(outbox))).scalar_one()


async def read(desk: Desk, count: int, queue: str = "jobs") -> list[QueueEvent]:
    """The first events of a queue."""
    url = desk.work_queues.settings.redis_url
    assert url is not None
    seen: list[QueueEvent] = []
    async with (
        QueueEvents(f"work.acme.{SCOPE}.{queue}", redis_url=url, last_event_id="0") as events,
        asyncio.timeout(limit(20)),
    ):
        async for event in events:
            seen.append(event)
            if len(seen) == count:
                return seen
    raise AssertionError("the stream ended")


async def test_queues_whose_events_are_streamed_are_in_the_registry(linked: Desk, valkey: Server) -> None:
    await linked.queue()
    await linked.publish()
    await relayed(linked)
    assert f"work.acme.{SCOPE}.jobs".encode() in cast("list[bytes]", valkey.call("SMEMBERS", REGISTRY))


async def test_events_are_read_as_those_of_a_stream_queue(linked: Desk) -> None:
    await linked.queue()
    (message_id,) = await linked.publish(message_type="invoice", correlation_id="order-17")
    await linked.settle("complete", await linked.claim())
    assert await relayed(linked) == 3
    published, claimed, completed = await read(linked, 3)
    assert [each.name for each in (published, claimed, completed)] == ["published", "claimed", "completed"]
    assert {
        (each.job_id, each.job_name, each.fields["correlation_id"]) for each in (published, claimed, completed)
    } == {(message_id, "invoice", "order-17")}
    assert claimed.fields["attempt"] == 1
    assert claimed.fields["wait_ms"] >= 0
    assert completed.fields["duration_us"] >= 0
    assert await waiting(linked.work_queues) == 0


async def sent(desk: Desk) -> None:
    """A relay sends what is there, and is gone before it has deleted the rows."""
    relay = OutboxRelay(desk.work_queues)
    rows = await relay._rows(only_uncopied=False)  # pyright: ignore[reportPrivateUsage]
    await relay._send(rows, await relay._queues(rows))  # pyright: ignore[reportPrivateUsage]
    await relay.close()


async def test_what_a_relay_sent_before_it_died_is_not_sent_again(linked: Desk) -> None:
    await linked.queue()
    await linked.queue("others")
    first = await linked.publish(2)
    await sent(linked)
    second = await linked.publish(2)
    await linked.publish(1, "others")
    await sent(linked)
    assert await relayed(linked) == 5
    (last,) = await linked.publish()
    await relayed(linked)
    assert [event.job_id for event in await read(linked, 5)] == [*first, *second, last]


async def test_marks_of_rows_that_are_gone_are_forgotten_and_others_kept(linked: Desk, valkey: Server) -> None:
    await linked.queue()
    await linked.publish()
    await relayed(linked)
    key = QueueKeys(f"work.acme.{SCOPE}.jobs").relayed
    (gone,) = marks(valkey, key)
    await linked.publish()
    await sent(linked)
    (waits,) = marks(valkey, key) - {gone}
    for mark in (gone, waits):  # both are from long ago; the row of one is still there
        valkey.call("ZADD", key, 1, mark)
    (third,) = await linked.publish()
    await relayed(linked)
    assert gone not in marks(valkey, key)
    assert waits in marks(valkey, key)
    assert [event.job_id for event in await read(linked, 3)][2] == third
    assert 0 < cast("int", valkey.call("TTL", key)) <= 7 * 86_400


def marks(server: Server, key: bytes) -> set[bytes]:
    return set(cast("list[bytes]", server.call("ZRANGE", key, 0, -1)))


async def test_rows_of_another_database_with_the_same_numbers_are_not_taken_for_sent(linked: Desk) -> None:
    await linked.queue()
    (first,) = await linked.publish()
    async with linked.work_queues.database.begin() as connection:
        (row,) = (await connection.execute(select(outbox))).mappings().all()
    await relayed(linked)
    linked.clock.turn(s=1)
    async with linked.work_queues.database.begin() as connection:  # as in a database that was made anew
        again = {**row, "created_at": linked.clock()}
        await connection.execute(outbox.insert().values(again))
    await relayed(linked)
    events = await read(linked, 2)
    assert [event.job_id for event in events] == [first, first]


async def test_rows_that_were_read_long_ago_are_read_again_before_they_are_sent(
    linked: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked.queue()
    await linked.publish()
    relay = OutboxRelay(linked.work_queues)
    find = relay._queues  # pyright: ignore[reportPrivateUsage]
    stood_still = [0.0]

    async def slowly(rows: Any) -> Any:
        stood_still[0] += 11.0
        return await find(rows)

    monkeypatch.setattr(relay, "_queues", slowly)
    monkeypatch.setattr(outbox_relay.time, "monotonic", lambda: stood_still[0])
    batch = await relay.work()
    assert (batch.items, batch.more) == (0, True)
    monkeypatch.undo()
    assert (await relay.work()).items == 1
    await relay.close()


async def test_each_messages_events_are_in_order_however_many_work_on_them(linked: Desk) -> None:
    await linked.queue(backoff_initial_ms=0, backoff_jitter_ms=0)
    await linked.publish(40)

    async def worker() -> None:
        while claimed := await linked.claim(4):
            for each in claimed:
                await linked.settle("fail" if each.attempts == 1 else "complete", [each])

    async def relaying() -> None:
        for _ in range(10):
            await relayed(linked, batch=7)

    await asyncio.gather(*(worker() for _ in range(4)), relaying())
    await worker()
    await relayed(linked)
    steps = ["published", "claimed", "failed", "retried", "claimed", "completed"]
    order: dict[str, list[str]] = {}
    for event in await read(linked, 40 * len(steps)):
        order.setdefault(str(event.job_id), []).append(event.name)
    assert list(order.values()) == [steps] * 40


async def test_a_scope_may_have_its_events_as_messages(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, events_to_queue=["completed"])
    await desk.queue()
    (message_id,) = await desk.publish(correlation_id="order-17")
    await desk.settle("complete", await desk.claim())
    assert await relayed(desk) == 3
    (event,) = await desk.claim(10, "_events")
    assert event.message_type == "message.completed"
    assert (event.correlation_id, event.causation_id) == ("order-17", message_id)
    assert b'"message_id":"%s"' % message_id.encode() in bytes(event.body)


async def test_work_on_the_events_makes_no_more_of_them(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, events_to_queue=["published", "claimed", "completed"])
    await desk.queue()
    await desk.publish()
    await relayed(desk)
    await desk.settle("complete", await desk.claim(10, "_events"))
    await relayed(desk)
    assert await desk.claim(10, "_events") == []


async def test_without_redis_events_go_nowhere_else_and_do_not_pile_up(desk: Desk) -> None:
    await desk.queue()
    await desk.publish(3)
    assert await relayed(desk) == 3
    assert await waiting(desk.work_queues) == 0


async def test_events_of_a_queue_that_is_gone_are_dropped(desk: Desk) -> None:
    await desk.queue()
    (message_id,) = await desk.publish()
    await desk.work_queues.messages.cancel(desk.caller, SCOPE, message_id)
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(messages.delete())
    await desk.work_queues.queues.delete(desk.caller, SCOPE, "jobs")
    assert await relayed(desk) == 2
    assert await waiting(desk.work_queues) == 0


async def test_while_redis_is_away_events_queue_fills_and_streams_catch_up(
    tmp_path: Path, clock: Clock, launch: Launch, key_leaks: KeyLeaks
) -> None:
    key_leaks.allow("rw:*")
    server = launch(EmbeddedValkey)
    url = f"sqlite:///{tmp_path}/work.db"
    await emptied(url)
    async with await WorkQueues.open(WorkSettings(database_url=url, redis_url=server.url), now_ms=clock) as work_queues:
        desk = await a_desk(work_queues, clock, events_to_queue=["published"])
        await desk.queue()
        server.stop()
        (message_id,) = await desk.publish()
        relay = OutboxRelay(work_queues)
        assert (await relay.work()).items == 1
        (event,) = await desk.claim(10, "_events")
        assert event.causation_id == message_id
        assert await waiting(work_queues) > 0
        server.start()
        while await waiting(work_queues):
            await relay.work()
        await relay.close()
        assert await desk.claim(10, "_events") == []
        assert [(each.name, each.job_id) for each in await read(desk, 1)] == [("published", message_id)]


async def test_a_relay_that_was_overtaken_copies_nothing_twice(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, events_to_queue=["published"])
    await desk.queue()
    await desk.publish()
    slow, fast = OutboxRelay(work_queues), OutboxRelay(work_queues)
    rows = await slow._rows(only_uncopied=False)  # pyright: ignore[reportPrivateUsage]
    queues = await slow._queues(rows)  # pyright: ignore[reportPrivateUsage]
    await fast.work()
    with pytest.raises(EventsOvertaken):
        await work_queues.transactions.run(lambda each: slow._finish(each, rows, queues))  # pyright: ignore[reportPrivateUsage]
    assert len(await desk.claim(10, "_events")) == 1


async def test_a_seq_never_comes_again_also_when_the_outbox_was_empty(desk: Desk) -> None:
    await desk.queue()
    numbers: list[int] = []
    for _ in range(3):
        await desk.publish()
        async with desk.work_queues.database.connect() as connection:
            numbers += (await connection.execute(select(outbox.c.id))).scalars()
        await relayed(desk)
    assert len(set(numbers)) == 3


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([None], id="plain"),
        pytest.param([{"attempt": 1, "wait_ms": 9_007_199_254_740_991}], id="shared"),
        pytest.param([{"attempt": 1, "wait_ms": 0}, {"attempt": 2, "wait_ms": 17}], id="own"),
        pytest.param(
            [{"reason": 'zerstört ☹ \u0000 "\\/\n 𝄞', "attempt": 1}, {"reason": "", "attempt": 1}], id="texts"
        ),
    ],
)
async def test_a_row_becomes_what_the_wire_says(server: Server, told: list[dict[str, int | str] | None]) -> None:
    jobs, others = (_record(7, "jobs"), _record(8, "others"))
    packed: list[PackedEvents] = []
    for at, kind in enumerate(EVENTS):
        ids = [f"01J9-{at}-{number}" for number in range(len(told))]
        columns: dict[str, Any] = {name: [(each or {})[name] for each in told] for name in told[0] or {}}
        types = ["recital", "récit"][: len(ids)]
        correlations = (ids, ["order-17"] * len(ids), ["ördnung", *ids[1:]])[at % 3]
        queue_id = 8 if at % 4 == 3 else 7
        packed.append(PackedEvents.of(kind, queue_id, 1_700_000_000_000 + at, ids, types, correlations, columns))
    row = OutboxRow(3, 1_700_000_000_000, encode(packed), copied=False)
    streams = EventStreams(server.url, max_len=1_000)
    for _ in range(2):
        await streams.send({jobs: [row], others: [row]}, first=3)
    await streams.close()
    for queue in (jobs, others):
        client = server.client()
        found = await client.xrange(QueueKeys(f"work.acme.main.{queue.slug}").events)
        await client.aclose()
        expected = [
            entry_of(event, queue.slug, f"3-{at}").encode()
            for at, event in enumerate(row.events)
            if event.queue_id == queue.id
        ]
        assert [[part for pair in fields.items() for part in pair] for _, fields in found] == expected


async def test_rows_that_the_server_refuses_are_sent_whole_and_in_order_later(launch: Launch) -> None:
    server = launch(EmbeddedValkey)
    rows = [
        OutboxRow(number, 1, encode([PackedEvents.of("published", 7, 1, [f"m-{number}"], "m", "c")]), copied=False)
        for number in (1, 2, 3)
    ]
    streams = EventStreams(server.url, max_len=1_000)
    await streams.send({_record(7, "jobs"): rows[:1]}, first=1)
    server.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(ServerRefused):
        await streams.send({_record(7, "jobs"): rows}, first=1)
    server.call("CONFIG", "SET", "maxmemory", "0")
    await streams.send({_record(7, "jobs"): rows}, first=1)
    await streams.close()
    client = server.client()
    found = await client.xrange(QueueKeys("work.acme.main.jobs").events)
    await client.aclose()
    assert [fields[b"id"] for _, fields in found] == [b"m-1", b"m-2", b"m-3"]


async def test_a_stream_keeps_about_as_many_events_as_it_is_told(valkey: Server) -> None:
    streams = EventStreams(valkey.url, max_len=100)
    for number in range(1, 4):
        ids = [f"m-{number}-{at}" for at in range(400)]
        packed = PackedEvents.of("published", 7, 1, ids, "m", ids)
        await streams.send({_record(7, "jobs"): [OutboxRow(number, 1, encode([packed]), copied=False)]}, first=number)
    await streams.close()
    assert 100 <= cast("int", valkey.call("XLEN", QueueKeys("work.acme.main.jobs").events)) < 300


def _record(number: int, slug: str) -> QueueRecord:
    return QueueRecord(
        id=number,
        tenant_id=1,
        scope_id=1,
        tenant="acme",
        scope=SCOPE,
        slug=slug,
        system=False,
        state="active",
        created_at=0,
        updated_at=0,
        scope_state="active",
        dead_letter_id=1,
        events_queue_id=2,
        events_to_queue=frozenset(),
    )
