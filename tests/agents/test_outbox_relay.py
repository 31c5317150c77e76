"""Events leave the outbox for Redis streams and `_events`: at least once, in order for each message."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from relevo.agents.event_streams import packed
from relevo.agents.outbox_relay import OutboxRelay
from relevo.broker.resp import pack
from relevo.engine.events.queue_events import QueueEvent, QueueEvents
from relevo.errors import EventsOvertaken
from relevo.wire.keys import REGISTRY
from relevo.work.store.outbox import EVENTS, WorkEvent
from relevo.work.store.tables import messages, outbox
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.conftest import Launch
from tests.pace import limit
from tests.servers.leaks import KeyLeaks
from tests.servers.server import EmbeddedValkey, Server
from tests.support.desk import SCOPE, Desk, a_desk, emptied


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


async def test_a_relay_that_dies_before_it_deletes_repeats_with_the_same_seq(linked: Desk) -> None:
    await linked.queue()
    await linked.publish(2)
    relay = OutboxRelay(linked.work_queues)
    rows = await relay._rows(only_uncopied=False)  # pyright: ignore[reportPrivateUsage]
    await relay._send(rows, await relay._queues(rows))  # pyright: ignore[reportPrivateUsage]
    await relay.close()  # and is gone, without having deleted
    assert await relayed(linked) == 2
    events = await read(linked, 4)
    assert [each.fields["seq"] for each in events[:2]] == [each.fields["seq"] for each in events[2:]]


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


@pytest.mark.parametrize("name", ["recital", "récit"])
@pytest.mark.parametrize("extras", [None, {"attempt": 2}, {"attempt": 2, "reason": "zerstört ☹"}])
async def test_events_are_packed_as_the_wire_says(extras: dict[str, int | str] | None, name: str) -> None:
    events = [
        (WorkEvent(kind, 7, "01J9", 1_700_000_000_000 + at // 2, name, "order-17", extras), f"3-{at}")
        for at, kind in enumerate(EVENTS)
    ]
    start = ("XADD", "{chasqui:work.acme.main.jobs}:events", "MAXLEN", "~", "5", "*")
    made = list(packed(start[1].encode(), 5, "jobs", events))
    assert [each.encode() for each in made] == [
        pack((*start, *event.fields("jobs", seq).encode())) for event, seq in events
    ]
