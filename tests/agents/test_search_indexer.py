"""The search table learns of every message, and of what changes, once, however often its agent is killed; whoever searches
finds all of them before it has."""

import asyncio
import os
import sys
from typing import Any

import pytest
from sqlalchemy import func, select, text

from relevo.agents.message_archiver import MessageArchiver
from relevo.agents.outbox_relay import OutboxRelay
from relevo.agents.replay_runner import ReplayRunner
from relevo.agents.search_indexer import SearchIndexer
from relevo.work.dead_letters.listing import DeadLetterFilter
from relevo.work.reading.message_filter import MessageFilter
from relevo.work.store.search_attributes import attribute
from relevo.work.store.search_index import forget
from relevo.work.store.tables import archive, search, search_feed
from relevo.work.work_queues import WorkQueues
from tests.servers.child import Child
from tests.support.desk import SCOPE, Desk, new

FIELDS: dict[str, Any] = {
    "message_type": "invoice",
    "source_type": "shop",
    "source_id": "shop-7",
    "correlation_id": "order-1",
}


async def relayed(desk: Desk) -> None:
    relay = OutboxRelay(desk.work_queues)
    await relay.work()
    await relay.close()


async def entries(work_queues: WorkQueues) -> list[tuple[int, str]]:
    async with work_queues.database.connect() as connection:
        rows = await connection.execute(
            select(search.c.attribute, search.c.id).order_by(search.c.id, search.c.attribute)
        )
        return [(row.attribute, row.id) for row in rows]


async def fed(work_queues: WorkQueues) -> int:
    async with work_queues.database.connect() as connection:
        return (await connection.execute(select(func.count()).select_from(search_feed))).scalar_one()


def named(message_id: str, **fields: str) -> list[tuple[int, str]]:
    return sorted((attribute(name, value), message_id) for name, value in fields.items())  # pyright: ignore[reportArgumentType]


async def test_a_message_is_found_before_the_table_knows_it_and_after(desk: Desk) -> None:
    await desk.queue()
    (wanted,) = await desk.ids(new(1, **FIELDS))
    await desk.ids(new(2, message_type="order"))
    search = desk.work_queues.search
    for known in (False, True):
        desk.clock.turn(5)
        if known:
            await desk.index()
        assert (await search.behind_s() > 0) is not known
        for name in ("message_type", "source_id", "correlation_id"):
            assert [each.id for each in await desk.all(**{name: FIELDS[name]})] == [wanted], (name, known)
        assert await desk.all(message_type="nobody") == []
    assert [each for each in await entries(desk.work_queues) if each[1] == wanted] == named(wanted, **FIELDS)


async def test_a_message_that_says_nothing_has_no_entry(desk: Desk) -> None:
    await desk.queue()
    ids = await desk.ids(new(1), new(2))
    assert await fed(desk.work_queues) == 0
    await desk.index()
    assert await entries(desk.work_queues) == []
    assert [each.id for each in await desk.all(correlation_id=ids[0])] == ids[:1]


async def test_how_far_the_search_is_behind_is_in_its_answer(desk: Desk) -> None:
    await desk.queue()
    await desk.publish(message_type="invoice")
    desk.clock.turn(7)
    work_queues, caller = desk.work_queues, desk.caller
    behind = [
        (await work_queues.search.list(caller, SCOPE, MessageFilter(message_type="x"))).behind_s,
        (await work_queues.dead_letters.list(caller, SCOPE, DeadLetterFilter(message_type="x"))).behind_s,
        await work_queues.search.behind_s(),
    ]
    assert all(each is not None and 7 <= each < 60 for each in behind), behind
    await desk.index()
    assert (await work_queues.search.list(caller, SCOPE, MessageFilter(message_type="x"))).behind_s == 0


@pytest.mark.parametrize("known", [False, True])
async def test_what_a_message_becomes_is_found(desk: Desk, known: bool) -> None:
    await desk.queue()
    dead, cancelled, delayed = await desk.die() + await desk.publish() + await desk.publish(delay_s=60)
    await desk.work_queues.messages.cancel(desk.caller, SCOPE, cancelled)
    if known:
        await desk.index()
    assert [each.id for each in await desk.all(state="dead", queue="jobs")] == [dead]
    assert [each.id for each in await desk.all(state="cancelled")] == [cancelled]
    assert [each.id for each in await desk.all(state="delayed")] == [delayed]
    letters = await desk.work_queues.dead_letters.list(desk.caller, SCOPE, DeadLetterFilter(queue="jobs"))
    assert [each.id for each in letters.items] == [dead]


async def test_what_is_over_is_not_found_any_more(desk: Desk) -> None:
    await desk.queue()
    (dead,) = await desk.die(message_type="invoice")
    await desk.index()
    await desk.work_queues.replays.start(desk.caller, SCOPE)
    await ReplayRunner(desk.work_queues).work()
    assert await desk.all(state="dead") == []
    assert [each.id for each in await desk.all(message_type="invoice")] == [dead]


async def test_messages_of_the_installation_itself_are_found(desk: Desk) -> None:
    await desk.work_queues.scopes.change(desk.caller, SCOPE, {"events_to_queue": ["published"]})
    await desk.queue()
    (message_id,) = await desk.publish()
    await relayed(desk)
    await desk.index()
    (told,) = await desk.all(queue="_events", message_type="message.published")
    assert told.causation_id == message_id
    assert {each[1] for each in await entries(desk.work_queues)} == {told.id}


async def test_an_archived_message_is_found_by_the_same_entries(desk: Desk) -> None:
    desk.clock.pass_midnight()
    await desk.queue()
    (wanted,) = await desk.ids(new(1, **FIELDS))
    await desk.drain()
    await desk.index()
    before = await entries(desk.work_queues)
    desk.clock.turn(minutes=61)
    await MessageArchiver(desk.work_queues).work()
    assert [each.id for each in await desk.all(source_id="shop-7", archived=True)] == [wanted]
    assert await entries(desk.work_queues) == before
    async with desk.work_queues.database.begin() as connection:
        rows = (await connection.execute(select(archive))).mappings().all()
        await forget(connection, [dict(row) for row in rows])
    assert await entries(desk.work_queues) == []


async def test_pages_behind_each_other_hold_each_message_once(desk: Desk) -> None:
    """Some in the table, some not yet, in two queues, some of them archived."""
    desk.clock.pass_midnight()
    await desk.queue()
    await desk.queue("other")
    ids: list[str] = []
    for known in (True, True, False):
        for queue in ("jobs", "other"):
            ids += await desk.ids(*(new(n, message_type="invoice") for n in range(5)), queue=queue)
            await desk.ids(*(new(n) for n in range(3)), queue=queue)
        if known:
            await desk.index()
            await desk.drain()
            desk.clock.turn(minutes=61)
            await MessageArchiver(desk.work_queues).work()
    filters: tuple[dict[str, Any], ...] = (
        {"message_type": "invoice"},
        {"message_type": "invoice", "state": "completed"},
    )
    for asked in filters:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await desk.work_queues.search.list(
                desk.caller, SCOPE, MessageFilter(**asked), limit=3, cursor=cursor
            )
            found += [each.id for each in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        wanted = ids if "state" not in asked else ids[:5] + ids[10:15]
        assert found == sorted(wanted, reverse=True)


async def test_two_at_once_write_everything_once(desk: Desk) -> None:
    await desk.queue()
    for n in range(6):
        await desk.ids(*(new(n, message_type=f"t-{n}") for _ in range(4)))
    agents = [SearchIndexer(desk.work_queues, batch=8) for _ in range(3)]

    async def run(agent: SearchIndexer) -> None:
        while (await agent.work()).items:
            pass

    await asyncio.gather(*(run(agent) for agent in agents))
    assert len(await entries(desk.work_queues)) == 24
    assert await fed(desk.work_queues) == 0


@pytest.mark.parametrize("point", ["search.taken", "search.written"])
async def test_a_kill_in_the_middle_leaves_nothing_out_and_doubles_nothing(
    desk: Desk, database_url: str, point: str
) -> None:
    await desk.queue()
    (first,) = await desk.ids(new(1, **FIELDS))
    await desk.queue("other")
    (second,) = await desk.die(1, "other", message_type="order")
    before = await fed(desk.work_queues)
    environment = os.environ | {"RELEVO_FAULT": f"{point}:kill"}
    with Child(sys.executable, "-m", "tests.agents.serving", database_url, env=environment) as child:
        assert await asyncio.to_thread(child.ended, timeout=90) == -9, child.err
    assert await fed(desk.work_queues) == before
    assert await entries(desk.work_queues) == []
    assert [each.id for each in await desk.all(message_type="invoice")] == [first]
    await desk.index()
    found = await entries(desk.work_queues)
    assert [each for each in found if each[1] == first] == named(first, **FIELDS)
    assert {each[0] for each in found if each[1] == second} >= {
        attribute("state", "dead"),
        attribute("message_type", "order"),
    }
    assert len(found) == len(set(found))


async def test_an_attribute_shared_by_two_names_is_compared_on_the_row(desk: Desk) -> None:
    """A number that two attributes share is as if an entry were wrong."""
    await desk.queue()
    ids = await desk.ids(new(1, message_type="invoice"), new(2, message_type="order"))
    await desk.index()
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(
            text("UPDATE relevo_store_search SET attribute = :n"), {"n": attribute("message_type", "order")}
        )
    assert [each.id for each in await desk.all(message_type="order")] == ids[1:]
