"""What a process knows of the leases it gave out may be wrong by the time it settles: the rows have the last word, and what
went with them is counted, told and written once."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from sqlalchemy import delete, insert, select, update

from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.contract.claims import Settled
from relevo.work.store.counters import Depth
from relevo.work.store.lease import holding
from relevo.work.store.outbox import decode
from relevo.work.store.tables import leases, messages, outbox, ready
from tests.patience import until
from tests.support.desk import JOBS, SCOPE, Desk, tallied
from tests.work.conftest import OpenWorkQueues

pytestmark = pytest.mark.parametrize("lane", ["sqlite-alone", "postgres-alone", "mariadb-alone"], indirect=True)


async def told(desk: Desk, event: str) -> Counter[str]:
    """How often each message of the queue has this event."""
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, JOBS)
    async with desk.work_queues.database.connect() as connection:
        rows = (await connection.execute(select(outbox.c.events))).scalars().all()
    here = [each for row in rows for each in decode(row) if each.queue_id == queue.id]
    return Counter(each.id for each in here if each.event == event)


async def counted(desk: Desk) -> dict[str, int]:
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, JOBS)
    return {name: count for name, count in (await tallied(desk.work_queues, queue.id)).items() if count}


async def tokens(desk: Desk) -> list[str]:
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, JOBS)
    async with desk.work_queues.database.connect() as connection:
        mine = select(leases.c.token).where(leases.c.queue_id == queue.id)
        return list((await connection.execute(mine)).scalars())


def outcome(settled: Settled) -> str | None:
    return settled.state if settled.refusal is None else settled.refusal.code


@pytest.mark.parametrize("result", [b"", b'{"n":1}'], ids=["without a result", "with one"])
async def test_half_a_lease_that_another_process_has_settled_is_settled_once(
    desk: Desk, open_work_queues: OpenWorkQueues, result: bytes
) -> None:
    await desk.queue()
    ids = await desk.publish(6)
    claimed = await desk.claim(6)
    given = msgspec.Raw(result)
    other = Desk(await open_work_queues(), desk.caller, desk.clock)
    await other.settle("complete", claimed[:3], result=given)
    settled = await desk.settle("complete", claimed, queue=JOBS, result=given)
    assert [outcome(each) for each in settled] == ["completed"] * 6
    assert await told(desk, "completed") == Counter(ids)
    assert (await counted(desk))["completed"] == 6
    assert await desk.depth() == Depth()
    assert [(await desk.row(each))["result"] for each in ids] == [result.decode() or None] * 6
    assert await tokens(desk) == []


async def test_halves_of_leases_settled_twice_at_once_are_settled_once(
    desk: Desk, open_work_queues: OpenWorkQueues
) -> None:
    """By two processes, each with all it has in one transaction, beside messages that nobody disputes."""
    await desk.queue()
    ids = await desk.publish(24)
    mine = [await desk.claim(4) for _ in range(6)]
    other = Desk(await open_work_queues(), desk.caller, desk.clock)
    halves = [desk.settle("complete", lease, queue=JOBS) for lease in mine]
    halves += [other.settle("complete", lease[:2], queue=JOBS) for lease in mine]
    outcomes = [outcome(each) for settled in await asyncio.gather(*halves) for each in settled]
    assert outcomes == ["completed"] * 36
    assert await told(desk, "completed") == Counter(ids)
    assert (await counted(desk))["completed"] == 24
    assert await desk.depth() == Depth()


async def test_a_lease_that_disagrees_with_its_rows_completes_what_it_holds_alone(desk: Desk) -> None:
    """One of its messages went back and is on its third claim, one is finished otherwise, one is not there at all."""
    await desk.queue()
    ids = await desk.publish(5)
    claimed = await desk.claim(5)
    back, over, gone = ids[1], ids[2], ids[3]
    async with desk.work_queues.database.begin() as connection:
        place = select(messages.c.queue_id, messages.c.sort_key, messages.c.id).where(messages.c.id == back)
        await connection.execute(insert(ready).from_select(["queue_id", "sort_key", "id"], place))
        await connection.execute(update(messages).where(messages.c.id == back).values(claim_no=2))
        ended: dict[str, Any] = {"standing": "cancelled", "finished_at": desk.clock()}
        await connection.execute(update(messages).where(messages.c.id == over).values(ended))
        await connection.execute(delete(messages).where(messages.c.id == gone))
    settled = await desk.settle("complete", claimed, queue=JOBS)
    assert [outcome(each) for each in settled] == ["completed", "CLAIM_LOST", "CLAIM_LOST", "NOT_FOUND", "completed"]
    assert await told(desk, "completed") == Counter([ids[0], ids[4]])
    assert (await counted(desk))["completed"] == 2
    assert await desk.states() == {"completed": 2, "pending": 1, "cancelled": 1}


async def test_a_lease_that_names_too_much_or_too_little_holds_what_the_rows_say(desk: Desk) -> None:
    """Its list lacks a message that was claimed with it, and names one that waits. When its time is over the one goes back,
    and nothing happens to the other."""
    await desk.queue(visibility_timeout_s=30)
    ids = await desk.publish(4)
    claimed = await desk.claim(3)
    held = msgspec.json.encode([holding(each, 0) for each in (ids[0], ids[3])]).decode()
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(update(leases).where(leases.c.token == claimed[0].claim_token).values(held=held))
    assert [outcome(each) for each in await desk.settle("complete", claimed[1])] == ["completed"]
    desk.clock.turn(s=31)
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues)

    async def is_over() -> bool:
        await enforcer.work()
        return await tokens(desk) == []

    await until(is_over)
    assert await desk.states() == {"completed": 1, "pending": 2, "claimed": 1}
    assert (await desk.row(ids[3]))["reclaims"] == 0
    assert (await desk.row(ids[0]))["reclaims"] == 1
