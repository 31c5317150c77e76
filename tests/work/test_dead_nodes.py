"""A node that dies without a word holds locks: its transaction ends by itself, and who waits goes on."""

import asyncio

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from relevo.contract.messages import Published
from relevo.errors import StoreUnavailable
from relevo.work.store import session_timeouts
from relevo.work.store.tables import queues
from relevo.work.store.unit_of_work import UnitOfWork
from relevo.work.work_queues import WorkQueues
from tests.pace import limit
from tests.support.desk import Desk, new
from tests.work.conftest import OpenWorkQueues

SERVERS = ("postgres-alone", "mariadb-alone")
pytestmark = pytest.mark.parametrize("lane", SERVERS, indirect=True)

PROBE = {
    "postgresql": "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout')",
    "mariadb": "SELECT @@SESSION.idle_transaction_timeout, @@SESSION.innodb_lock_wait_timeout",
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any connection is made: a dead node is given a second."""
    monkeypatch.setattr(session_timeouts, "IDLE_S", 1)


async def test_locks_of_a_node_that_stands_still_end_and_publishes_go_on(
    desk: Desk, open_work_queues: OpenWorkQueues
) -> None:
    queue = await desk.queue(max_depth=10)
    node: WorkQueues = await open_work_queues()
    async with node.database.engine.connect() as dead:
        await dead.execute(select(queues).where(queues.c.id == queue.id).with_for_update())
        async with asyncio.timeout(
            limit(15)
        ):  # less than the session_timeouts of who waits: it is not that which ends the wait
            assert isinstance((await desk.outcomes(new()))[0], Published)
        with pytest.raises(DBAPIError):
            await dead.execute(select(queues))
        await dead.invalidate()


async def test_a_transaction_that_stood_still_runs_once_more(desk: Desk, work_queues: WorkQueues) -> None:
    """A busy machine kept a claim from going on for ten seconds, and the caller was told that the database was away."""
    queue = await desk.queue(max_depth=10)
    runs, holding, ended = list[int](), asyncio.Event(), asyncio.Event()

    async def stand_still_once(transaction: UnitOfWork) -> None:
        runs.append(len(runs))
        await transaction.session.lock_queues([queue.id])
        holding.set()
        await ended.wait()
        await transaction.session.lock_queues([queue.id])

    standing = asyncio.ensure_future(work_queues.fast_transactions.run(stand_still_once))
    await holding.wait()
    async with asyncio.timeout(limit(15)):
        assert isinstance(
            (await desk.outcomes(new()))[0], Published
        )  # it waited for the lock, which the database took away
    ended.set()
    await standing
    assert runs == [0, 1]


async def test_a_transaction_that_always_stands_still_is_ended_and_says_so(desk: Desk, work_queues: WorkQueues) -> None:
    queue = await desk.queue(max_depth=10)
    holding: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def stand_still(transaction: UnitOfWork) -> None:
        await transaction.session.lock_queues([queue.id])
        go_on = asyncio.Event()
        holding.put_nowait(go_on)
        await go_on.wait()
        await transaction.session.lock_queues([queue.id])

    standing = asyncio.ensure_future(work_queues.fast_transactions.run(stand_still))
    for _ in range(2):
        go_on = await holding.get()
        async with asyncio.timeout(limit(15)):
            assert isinstance((await desk.outcomes(new()))[0], Published)
        go_on.set()
    with pytest.raises(StoreUnavailable):
        await standing


async def test_who_waits_is_more_patient_than_the_idle_limit(work_queues: WorkQueues) -> None:
    async with work_queues.database.connect() as connection:
        idle, lock = (await connection.execute(text(PROBE[work_queues.database.dialect]))).one()
    seconds = [int(str(each).rstrip("s")) for each in (idle, lock)]
    assert seconds == [1, session_timeouts.LOCK_S]
    assert session_timeouts.LOCK_S > 10
