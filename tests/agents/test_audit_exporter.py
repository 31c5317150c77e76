"""Audit entries of a scope become messages of its `_audit` when it asks for that: each once, in order, none of itself."""

import asyncio
from typing import Any

import msgspec
from sqlalchemy import select, update

from relevo.agents.audit_exporter import MARGIN_MS, AuditExporter
from relevo.work.audit.entries import AuditFilter
from relevo.work.store.tables import audit
from relevo.work.work_queues import WorkQueues
from tests.clock import Clock
from tests.support.desk import SCOPE, Desk, a_desk


async def exported(desk: Desk, *, batch: int = 500) -> int:
    """One run."""
    agent, items = AuditExporter(desk.work_queues, batch=batch), 0
    while (done := await agent.work()).more:
        items += done.items
    return items + done.items


async def entries(desk: Desk) -> list[dict[str, Any]]:
    """What is claimable in `_audit`, in its order."""
    return [msgspec.json.decode(each.body) for each in await desk.claim(1000, "_audit")]


def actions(told: list[dict[str, Any]]) -> list[str]:
    return [entry["action"] for entry in told]


async def test_entries_become_messages_from_the_one_that_asked_for_it(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock)
    await desk.queue("before")
    await work_queues.scopes.change(desk.caller, SCOPE, {"audit_to_queue": True})
    await desk.queue()
    (message_id,) = await desk.publish()
    assert await exported(desk) == 3
    told = await entries(desk)
    assert actions(told) == ["scope.change", "queue.create", "message.publish"]
    page = await work_queues.audit.list(desk.caller, AuditFilter(target=message_id))
    assert told[2] == msgspec.json.decode(msgspec.json.encode(page.items[0]))


async def test_an_entry_is_exported_once_however_often_it_is_looked_at(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, audit_to_queue=True)
    await desk.queue()
    assert await exported(desk) == 2
    assert await exported(desk) == 0
    clock.turn(s=2 * MARGIN_MS / 1000)
    assert await exported(desk) == 0
    await desk.publish()
    assert await exported(desk) == 1
    assert len(await entries(desk)) == 3


async def test_work_on_the_export_is_not_exported(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, audit_to_queue=True)
    assert await exported(desk) == 1
    await desk.settle("complete", await desk.claim(10, "_audit"))  # names the messages, and no queue
    assert await exported(desk) == 0


async def test_other_scopes_are_left_alone(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, audit_to_queue=True)
    await work_queues.scopes.create(desk.caller, "quiet")
    await exported(desk)
    assert {entry["scope"] for entry in await entries(desk)} == {SCOPE}
    assert await work_queues.claims.claim(desk.caller, "quiet", "_audit") == []


async def test_the_export_ends_with_the_entry_that_turned_it_off(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, audit_to_queue=True)
    assert await exported(desk) == 1
    await desk.queue()
    await work_queues.scopes.change(desk.caller, SCOPE, {"audit_to_queue": False})
    await desk.queue("after")
    assert await exported(desk) == 2
    clock.turn(s=2 * MARGIN_MS / 1000)
    assert await exported(desk) == 0
    assert actions(await entries(desk)) == ["scope.create", "queue.create", "scope.change"]


async def test_an_entry_with_a_smaller_number_that_is_committed_later_is_not_missed(
    work_queues: WorkQueues, clock: Clock
) -> None:
    desk = await a_desk(work_queues, clock, audit_to_queue=True)
    await desk.queue("one")
    await desk.queue("two")
    async with work_queues.database.begin() as connection:  # the entry of `one` as if its transaction were not over yet
        late = (await connection.execute(select(audit).where(audit.c.target == "one"))).mappings().one()
        await connection.execute(update(audit).where(audit.c.id == late["id"]).values(scope_id=0))
    assert await exported(desk) == 2
    async with work_queues.database.begin() as connection:
        await connection.execute(update(audit).where(audit.c.id == late["id"]).values(scope_id=late["scope_id"]))
    assert await exported(desk) == 1
    assert {entry["target"] for entry in await entries(desk)} == {SCOPE, "one", "two"}


async def test_more_entries_than_a_batch_are_exported_in_one_run(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, audit_to_queue=True)
    for n in range(11):
        await desk.queue(f"q{n}")
    assert await exported(desk, batch=4) == 12
    assert [entry["target"] for entry in await entries(desk)][1:] == [f"q{n}" for n in range(11)]


async def test_two_exporters_at_once_export_each_entry_once(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock, audit_to_queue=True)
    for n in range(20):
        await desk.queue(f"q{n}")
    await asyncio.gather(*(exported(desk, batch=3) for _ in range(3)))
    told = [entry["id"] for entry in await entries(desk)]
    assert len(told) == len(set(told)) == 21


async def test_without_a_scope_that_asks_nothing_is_written(work_queues: WorkQueues, clock: Clock) -> None:
    desk = await a_desk(work_queues, clock)
    assert await exported(desk) == 0
    assert await desk.claim(1, "_audit") == []
