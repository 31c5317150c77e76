"""What is too old may be removed, and the audit says so: a cut is told, everything else is found."""

import pytest
from sqlalchemy import delete, select, update

from relevo.errors import InvalidInput
from relevo.work.store.tables import audit, audit_chains
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.support.desk import SCOPE, Desk


async def old_and_new(desk: Desk) -> int:
    """Entries from two hours ago, and some of now; the moment between them."""
    await desk.publish(2)
    await desk.settle("complete", await desk.claim(2))
    desk.clock.turn(minutes=120)
    between = desk.clock() - 60_000
    await desk.publish(1)
    return between


async def actions(desk: Desk) -> list[str]:
    async with desk.work_queues.database.connect() as connection:
        return list((await connection.execute(select(audit.c.action).order_by(audit.c.id))).scalars())


async def test_old_entries_go_and_the_rest_is_sound(desk: Desk) -> None:
    between = await old_and_new(desk)
    before = await actions(desk)
    removed = await desk.work_queues.audit_integrity.cut(desk.caller, between)
    assert removed == len(before) - 1
    assert await actions(desk) == ["message.publish", "audit.cut"]
    verdict = await desk.work_queues.audit_integrity.verify()
    assert (verdict.findings, verdict.cut) == ([], removed)


async def test_entries_go_on_after_a_cut(desk: Desk) -> None:
    await desk.work_queues.audit_integrity.cut(desk.caller, await old_and_new(desk))
    await desk.publish(1)
    assert (await desk.work_queues.audit_integrity.verify()).sound


async def test_chains_that_went_as_a_whole_are_not_missed(desk: Desk, database_url: str) -> None:
    async with await WorkQueues.open(WorkSettings(database_url=database_url)) as other:
        await other.queues.change(desk.caller, SCOPE, "jobs", {"max_retries": 1})
    await desk.work_queues.audit_integrity.cut(desk.caller, await old_and_new(desk))
    assert (await desk.work_queues.audit_integrity.verify()).sound


async def test_a_second_cut_takes_the_entry_of_the_first_and_tells_it_anew(desk: Desk, database_url: str) -> None:
    async with await WorkQueues.open(WorkSettings(database_url=database_url)) as other:
        await other.queues.change(desk.caller, SCOPE, "jobs", {"max_retries": 1})
    await desk.work_queues.audit_integrity.cut(desk.caller, await old_and_new(desk))
    await desk.work_queues.audit_integrity.cut(desk.caller, await old_and_new(desk))
    assert (await desk.work_queues.audit_integrity.verify()).sound
    assert (await actions(desk)).count("audit.cut") == 2  # what was told anew, and what is new


async def test_rows_removed_by_hand_after_a_cut_are_found(desk: Desk) -> None:
    await desk.work_queues.audit_integrity.cut(desk.caller, await old_and_new(desk))
    await desk.publish(1)
    async with desk.work_queues.database.begin() as connection:
        first = (await connection.execute(select(audit.c.id).order_by(audit.c.id).limit(1))).scalar_one()
        await connection.execute(delete(audit).where(audit.c.id == first))
    findings = (await desk.work_queues.audit_integrity.verify()).findings
    assert [finding.kind for finding in findings] == ["missing"]


async def test_a_cut_that_no_entry_tells_of_is_found(desk: Desk) -> None:
    """Whoever removes rows and moves the beginning of the chain by hand has still not said so in the audit."""
    await old_and_new(desk)
    async with desk.work_queues.database.begin() as connection:
        third = (await connection.execute(select(audit).order_by(audit.c.id).offset(2).limit(1))).mappings().one()
        await connection.execute(delete(audit).where(audit.c.id <= third["id"]))
        moved = {"cut_no": third["chain_no"], "cut_hash": third["hash"]}
        await connection.execute(update(audit_chains).where(audit_chains.c.chain == third["chain"]).values(moved))
    findings = (await desk.work_queues.audit_integrity.verify()).findings
    assert [finding.kind for finding in findings] == ["cut_unrecorded"]


async def test_what_is_yet_to_come_is_not_cut(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="future"):
        await desk.work_queues.audit_integrity.cut(desk.caller, desk.clock() + 60_000)
