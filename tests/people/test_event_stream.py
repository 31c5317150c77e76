"""A scope's events are followed over HTTP: as they happen, from where one was, and until one side ends it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from relevo.work.reading.event_feed import EventFeed, FeedEvent
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.pace import limit
from tests.patience import turn
from tests.people.conftest import relay
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.servers.stores import sqlite_with_tables, with_tables
from tests.support.desk import SCOPE, Desk, a_desk
from tests.support.room import QUEUE, Room, served

EVENTS = "/v1/scopes/billing/events"


class Told(NamedTuple):
    """One event as a browser would get it."""

    id: str | None
    event: str
    data: Any


@pytest.fixture
async def followed(tmp_path: Path, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Room]:
    """A served room with Redis and agents."""
    key_leaks.allow("rw:*")
    url = await sqlite_with_tables(tmp_path / "served.db")
    async with served(url, redis_url=valkey.url, agents=True) as one:
        yield one


@asynccontextmanager
async def following(room: Room, path: str = EVENTS, **headers: str) -> AsyncGenerator[AsyncGenerator[Told]]:
    async with room.http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")

        async def events() -> AsyncGenerator[Told]:
            fields: dict[str, str] = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    yield Told(fields.get("id"), fields["event"], msgspec.json.decode(fields["data"]))
                    fields = {}
                else:
                    fields = {}

        told = events()
        try:
            yield told
        finally:
            await told.aclose()


async def some(told: AsyncGenerator[Told], count: int) -> list[Told]:
    async with asyncio.timeout(limit(30)):
        return [await anext(told) for _ in range(count)]


async def test_events_are_told_as_they_happen(followed: Room) -> None:
    async with following(followed) as told:
        message_id = await followed.publish(correlation_id="order-17")
        (first,) = await some(told, 1)
        (claimed,) = await followed.claim()
        await followed.do(
            "POST", f"/v1/scopes/billing/messages/{claimed['id']}/complete", {"claim_token": claimed["claim_token"]}
        )
        rest = await some(told, 2)
    assert (first.event, first.data["message_id"], first.data["queue"]) == ("published", message_id, "invoices")
    assert first.data["correlation_id"] == "order-17"
    assert [each.event for each in rest] == ["claimed", "completed"]


async def test_who_comes_back_misses_nothing_and_gets_nothing_twice(followed: Room) -> None:
    async with following(followed) as told:
        seen = [await followed.publish() for _ in range(3)]
        first = await some(told, 2)
    missed = [await followed.publish() for _ in range(2)]
    last = first[-1].id
    assert last is not None
    async with following(followed, **{"last-event-id": last}) as told:
        rest = await some(told, 3)
    assert [each.data["message_id"] for each in first + rest] == [*seen, *missed]


async def test_only_the_queues_and_events_that_were_asked_for_are_told(followed: Room) -> None:
    await followed.do("POST", "/v1/scopes/billing/queues", {"slug": "letters"})
    async with following(followed, f"{EVENTS}?queue=invoices&event=claimed") as told:
        await followed.do("POST", "/v1/scopes/billing/queues/letters/messages", {"body": 1})
        await followed.do("POST", "/v1/scopes/billing/queues/letters/claim", {})
        await followed.publish()
        await followed.claim()
        (only,) = await some(told, 1)
    assert (only.event, only.data["queue"]) == ("claimed", "invoices")


async def test_the_end_of_the_server_ends_the_reading_at_once(followed: Room) -> None:
    async with following(followed) as told:
        await followed.publish()
        await some(told, 1)  # the reading is under way, and has nothing more to tell
        waiting = asyncio.ensure_future(anext(told, None))
        await turn()
        assert followed.service._http is not None  # pyright: ignore[reportPrivateUsage]
        await asyncio.wait_for(followed.service._http.stop(), limit(15))  # pyright: ignore[reportPrivateUsage]
        assert await asyncio.wait_for(waiting, limit(15)) is None


async def test_without_redis_events_cannot_be_followed(room: Room) -> None:
    assert await room.problem("GET", EVENTS) == (409, "EVENTS_NOT_KEPT")


async def test_a_place_that_nobody_gave_out_is_refused(followed: Room) -> None:
    answer = await followed.problem("GET", EVENTS, headers={"last-event-id": "yesterday"})
    assert answer == (422, "INVALID_INPUT")


async def test_what_is_not_there_is_not_followed(followed: Room) -> None:
    assert await followed.problem("GET", f"{EVENTS}?queue=nobody") == (404, "NOT_FOUND")
    foreign = await followed.tenant("other")
    assert await followed.problem("GET", EVENTS, key=foreign) == (404, "NOT_FOUND")


# --- the feed itself -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def linked(database_url: str, clock: Clock, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Desk]:
    key_leaks.allow("rw:*")
    await with_tables(database_url)
    settings = WorkSettings(database_url=database_url, redis_url=valkey.url)
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        yield await a_desk(work_queues, clock)


@asynccontextmanager
async def feed_of(desk: Desk, after: str | None = None, **wanted: Any) -> AsyncGenerator[EventFeed]:
    feed = EventFeed(
        desk.work_queues.queues, desk.work_queues.settings.redis_url, desk.caller, SCOPE, after=after, **wanted
    )
    await feed.open()
    try:
        yield feed
    finally:
        await feed.close()


async def all_of(feed: EventFeed, count: int) -> list[FeedEvent]:
    found: list[FeedEvent] = []
    while len(found) < count:
        found += await feed.read()
    return found


async def test_every_place_of_many_queues_leads_to_exactly_the_rest(linked: Desk) -> None:
    for slug in ("a", "b", "c"):
        await linked.queue(slug)
    async with feed_of(linked) as feed:
        for round_ in range(6):
            for slug in ("a", "b", "c"):
                await linked.publish(1 + round_ % 3, slug)
        await relay(linked)
        told = await all_of(feed, 36)
    assert len(told) == 36
    stories = [(each.data["message_id"], each.name) for each in told]
    for at in range(0, 36, 5):
        async with feed_of(linked, after=told[at].place) as again:
            rest = await all_of(again, 35 - at)
        assert [(each.data["message_id"], each.name) for each in rest] == stories[at + 1 :]


async def test_a_long_stream_and_a_short_one_are_merged_in_the_order_of_time(linked: Desk) -> None:
    await linked.queue("long")
    await linked.queue("short")
    async with feed_of(linked) as feed:
        for _ in range(4):
            await linked.publish(80, "long")
            await relay(linked)
            await linked.publish(1, "short")
            await relay(linked)
        told = await all_of(feed, 324)
    times = [int(each.place.partition(".")[0]) for each in told]
    assert times == sorted(times)
    assert len({each.data["message_id"] for each in told}) == 324


async def test_a_queue_made_meanwhile_is_heard_after_a_refresh(linked: Desk) -> None:
    await linked.queue("old")
    async with feed_of(linked) as feed:
        await linked.queue("new")
        await linked.publish(1, "new")
        await relay(linked)
        await feed.refresh()
        (event,) = await all_of(feed, 1)
    assert event.data["queue"] == "new"


async def test_events_that_were_trimmed_meanwhile_are_a_gap(linked: Desk, valkey: Server) -> None:
    await linked.queue("jobs")
    async with feed_of(linked) as feed:
        await linked.publish(3)
        await relay(linked)
        place = (await all_of(feed, 3))[0].place
        assert await feed.gaps() == []
    await linked.publish(3)
    await relay(linked)
    client = valkey.client()
    await client.xtrim("{chasqui:work.acme.main.jobs}:events", maxlen=1, approximate=False)
    await client.aclose()
    async with feed_of(linked, after=place) as again:
        assert [gap.queue for gap in await again.gaps()] == ["jobs"]


async def test_a_key_of_some_queues_hears_only_those(followed: Room) -> None:
    new = await followed.do("POST", "/v1/keys", {"name": "one", "permissions": ["view"], "queues": ["letters"]})
    await followed.do("POST", "/v1/scopes/billing/queues", {"slug": "letters"})
    async with following(followed, authorization=f"Bearer {new['secret']}") as told:
        await followed.do("POST", f"{QUEUE}/messages", {"body": 1})
        await followed.do("POST", "/v1/scopes/billing/queues/letters/messages", {"body": 1})
        (only,) = await some(told, 1)
    assert only.data["queue"] == "letters"
