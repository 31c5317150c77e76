"""Whoever writes to the audit at the same time as others links what they write, and what is not committed leaves no gap."""

import asyncio
import multiprocessing
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from sqlalchemy import distinct, func, select, text

from relevo.errors import SlugTaken, StoreUnavailable
from relevo.work.store.tables import audit, audit_chains
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import UnitOfWork
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.support.desk import SCOPE, Desk
from tests.support.killed_worker import Orders, live

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.support.killed_worker", "relevo.work.store.sqlite.driver", "asyncpg", "asyncmy", "aiosqlite"]
)


async def assert_sound(desk: Desk) -> int:
    verdict = await desk.work_queues.audit_integrity.verify()
    assert verdict.findings == []
    return verdict.entries


async def chains(desk: Desk) -> int:
    async with desk.work_queues.database.connect() as connection:
        rows = (await connection.execute(select(func.count(distinct(audit.c.chain))))).scalar_one()
        heads = (await connection.execute(select(func.count()).select_from(audit_chains))).scalar_one()
    assert rows == heads
    return rows


async def busy(desk: Desk, calls: int) -> None:
    """Hot and cold, one after the other."""
    for n in range(calls):
        await desk.publish(2)
        await desk.settle("complete", await desk.claim(2))
        await desk.work_queues.queues.change(desk.caller, SCOPE, "jobs", {"max_retries": n % 7})


async def test_many_writers_of_two_nodes_leave_a_sound_audit(desk: Desk, database_url: str) -> None:
    async with await WorkQueues.open(WorkSettings(database_url=database_url)) as other:
        nodes = [desk, desk.at(other)]
        await asyncio.gather(*(busy(node, 4) for node in nodes for _ in range(6)))
    assert await assert_sound(desk) > 100
    assert await chains(desk) > 1


async def test_an_audit_can_be_verified_while_others_write(desk: Desk) -> None:
    writing = asyncio.gather(*(busy(desk, 10) for _ in range(4)))
    while not writing.done():
        await assert_sound(desk)
    await writing


async def test_one_writer_needs_one_chain(desk: Desk) -> None:
    await busy(desk, 3)
    await assert_sound(desk)
    assert await chains(desk) == 1


async def test_a_refused_change_leaves_no_gap_and_no_chain(desk: Desk) -> None:
    for _ in range(3):
        with pytest.raises(SlugTaken):
            await desk.queue("jobs")
    await desk.queue("others")
    await assert_sound(desk)
    assert await chains(desk) == 1


class Broken(Exception):
    """Something that goes wrong in the middle."""


Write = Callable[[Desk, Callable[[Any], Awaitable[None]]], Awaitable[None]]


async def _hot(desk: Desk, then: Callable[[Any], Awaitable[None]]) -> None:
    async def work(transaction: UnitOfWork) -> None:
        transaction.audit(desk.caller, "test", "hot")
        await then(transaction)

    await desk.work_queues.fast_transactions.run(work)


async def _cold(desk: Desk, then: Callable[[Any], Awaitable[None]]) -> None:
    async def work(transaction: SqlUnitOfWork) -> None:
        transaction.audit(desk.caller, "test", "cold")
        await then(transaction)

    await desk.work_queues.transactions.run(work)


async def _nothing(_: Any) -> None:
    pass


async def _break(_: Any) -> None:
    raise Broken


@pytest.mark.parametrize("write", [_hot, _cold])
async def test_a_transaction_that_fails_leaves_no_gap_and_its_chain_goes_on(desk: Desk, write: Write) -> None:
    await write(desk, _nothing)
    with pytest.raises(Broken):
        await write(desk, _break)
    await write(desk, _nothing)
    await assert_sound(desk)
    assert await chains(desk) == 1


@pytest.mark.parametrize("write", [_hot, _cold])
async def test_a_chain_whose_commit_is_uncertain_is_given_up(
    desk: Desk, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are written, and then the answer to the commit is lost: it may have happened or not."""
    await write(desk, _nothing)
    with monkeypatch.context() as patched:
        written = UnitOfWork.write

        async def lose_the_answer(self: UnitOfWork, *given: Any) -> None:
            await written(self, *given)
            raise StoreUnavailable(reason="the connection is gone")

        patched.setattr(UnitOfWork, "write", lose_the_answer)
        with pytest.raises(StoreUnavailable):
            await write(desk, _nothing)
    await write(desk, _nothing)
    await assert_sound(desk)
    assert await chains(desk) == 2


async def test_a_new_chain_names_those_there_were(desk: Desk, database_url: str) -> None:
    async with await WorkQueues.open(WorkSettings(database_url=database_url)) as other:
        await other.queues.change(desk.caller, SCOPE, "jobs", {"max_retries": 1})
    old, new = await desk.work_queues.audit_integrity.heads()
    assert msgspec.json.decode(new.began_after) == [[old.chain, old.last_no, old.last_hash]]


@pytest.mark.parametrize("point", ["publish.written", "publish.committed", "settle.written", "settle.committed"])
async def test_a_process_killed_at_this_point_leaves_a_sound_audit(desk: Desk, database_url: str, point: str) -> None:
    orders = Orders(
        WorkSettings(database_url=database_url), desk.caller.tenant_id, messages=6, tasks=1, fault=f"{point}:kill:2"
    )
    ours, theirs = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=live, args=(orders, theirs))
    process.start()
    theirs.close()
    await asyncio.to_thread(process.join)
    ours.close()
    assert process.exitcode == -signal.SIGKILL
    await desk.publish()
    await assert_sound(desk)


async def test_every_row_is_linked_whoever_wrote_it(desk: Desk) -> None:
    await busy(desk, 1)
    await desk.work_queues.keys.create(desk.caller, "one", permissions=["view"])
    async with desk.work_queues.database.connect() as connection:
        loose = select(func.count()).select_from(audit).where(audit.c.chain.is_(None) | audit.c.hash.is_(None))
        assert (await connection.execute(loose)).scalar_one() == 0
        columns = "tenant.create,scope.create,queue.create,queue.change,key.create,message.publish,message.complete"
        actions = {row[0] for row in await connection.execute(text("SELECT DISTINCT action FROM relevo_store_audit"))}
    assert set(columns.split(",")) <= actions
