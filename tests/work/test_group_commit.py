"""Concurrent requests share a transaction, and none of them pays for another."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from relevo.errors import NotFound, StoreUnavailable
from relevo.work.message.verdict import SettleItem
from relevo.work.store import tables
from relevo.work.store.group_commit import WORTH_A_TRANSACTION, GroupCommit, Operation
from relevo.work.store.outbox import decode
from relevo.work.store.unit_of_work import UnitOfWork
from relevo.work.work_queues import WorkQueues
from tests.pace import limit
from tests.patience import turn, until
from tests.support.desk import JOBS, Desk, new


async def rows_of(work_queues: WorkQueues, table: Any) -> int:
    async with work_queues.database.connect() as connection:
        return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


async def test_publishes_of_one_moment_share_a_transaction(desk: Desk) -> None:
    """Seen by the outbox: one row a transaction, however many calls."""
    await desk.queue()
    await desk.ids(new())  # what has to be looked up is known now
    before = await rows_of(desk.work_queues, tables.outbox)
    await asyncio.gather(*(desk.ids(new(n)) for n in range(30)))
    assert await rows_of(desk.work_queues, tables.outbox) == before + 1
    assert await desk.states() == {"pending": 31}


async def test_each_call_has_its_own_audit_row(desk: Desk) -> None:
    await desk.queue()
    before = await rows_of(desk.work_queues, tables.audit)
    await asyncio.gather(*(desk.ids(new(n), new(n)) for n in range(10)))
    assert await rows_of(desk.work_queues, tables.audit) == before + 10


async def test_a_request_that_fails_does_not_fail_its_neighbours(desk: Desk) -> None:
    await desk.queue()

    async def explode(_: UnitOfWork, requests: Sequence[int]) -> list[int]:
        raise ZeroDivisionError(requests)

    async def echo(_: UnitOfWork, requests: Sequence[int]) -> list[int]:
        if 13 in requests:
            raise ValueError("thirteen")
        return [number * 2 for number in requests]

    group_commit, echoing = desk.work_queues.group_commit, Operation("echo", echo)
    outcomes = await asyncio.gather(
        *(group_commit.submit(echoing, number) for number in (1, 13, 3)),
        group_commit.submit(Operation("explode", explode), 5),
        desk.ids(new()),
        return_exceptions=True,
    )
    assert [outcomes[0], outcomes[2]] == [2, 6]
    assert isinstance(outcomes[1], ValueError)
    assert isinstance(outcomes[3], ZeroDivisionError)
    assert await desk.states() == {"pending": 1}


async def test_what_a_failed_transaction_wrote_is_gone(desk: Desk) -> None:
    queue = await desk.queue()

    async def half(transaction: UnitOfWork) -> None:
        await transaction.session.remember_keys([(queue.id, "k", "01J9ZZZZZZZZZZZZZZZZZZZZZZ")])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await desk.work_queues.fast_transactions.run(half)
    (outcome,) = await desk.ids(new(idempotency_key="k"))
    assert outcome != "01J9ZZZZZZZZZZZZZZZZZZZZZZ"


def a_group_commit(
    max_transactions: int, carried_out: list[list[int]], held: asyncio.Event
) -> tuple[GroupCommit, Operation[int, int]]:
    """A group_commit whose transactions write down what they hold; the one with a 0 takes until `held` is set."""

    async def note(_: UnitOfWork, requests: Sequence[int]) -> list[int]:
        carried_out.append(list(requests))
        if 0 in requests:
            await held.wait()
        return list(requests)

    async def commit(work: Callable[[UnitOfWork], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        await work(cast("UnitOfWork", None))
        return turn

    return GroupCommit(commit, max_transactions=max_transactions, together=False, most=500), Operation("note", note)


async def test_a_few_wait_for_the_transaction_under_way_and_share_the_next() -> None:
    carried_out: list[list[int]] = []
    held = asyncio.Event()
    group_commit, step = a_group_commit(3, carried_out, held)
    slow = asyncio.ensure_future(group_commit.submit(step, 0))
    await until(lambda: carried_out == [[0]])
    others = [asyncio.ensure_future(group_commit.submit(step, number)) for number in (1, 2)]
    await turn()
    held.set()
    assert await asyncio.gather(slow, *others) == [0, 1, 2]
    assert carried_out == [[0], [1, 2]]


async def test_many_take_a_lane_of_their_own_at_once() -> None:
    carried_out: list[list[int]] = []
    held = asyncio.Event()
    group_commit, step = a_group_commit(2, carried_out, held)
    slow = asyncio.ensure_future(group_commit.submit(step, 0))
    await until(lambda: carried_out == [[0]])
    numbers = list(range(1, 1 + WORTH_A_TRANSACTION))
    assert await asyncio.gather(*(group_commit.submit(step, number) for number in numbers)) == numbers
    assert not slow.done()
    held.set()
    assert await slow == 0
    assert carried_out == [[0], numbers]


async def test_a_transaction_that_hangs_holds_nobody_up() -> None:
    carried_out: list[list[int]] = []
    held = asyncio.Event()
    group_commit, step = a_group_commit(2, carried_out, held)
    slow = asyncio.ensure_future(group_commit.submit(step, 0))
    await until(lambda: carried_out == [[0]])
    async with asyncio.timeout(limit(20)):
        assert await group_commit.submit(step, 1) == 1
    assert not slow.done()
    held.set()
    assert await slow == 0


async def test_what_is_committed_is_answered_though_nobody_could_be_told(caplog: pytest.LogCaptureFixture) -> None:
    """An error behind the commit let the caller wait for ever."""

    async def note(_: UnitOfWork, requests: Sequence[int]) -> list[int]:
        return list(requests)

    async def fail() -> None:
        raise ValueError("no index")

    async def commit(work: Callable[[UnitOfWork], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        await work(cast("UnitOfWork", None))
        return fail

    group_commit = GroupCommit(commit, max_transactions=1, together=True, most=500)
    async with asyncio.timeout(limit(20)):
        assert await group_commit.submit(Operation("note", note), 7) == 7
    assert "nobody was told of a commit" in caplog.text


async def test_a_caller_who_gives_up_takes_nobody_along(desk: Desk) -> None:
    await desk.queue()
    calls = [asyncio.create_task(desk.ids(new(n))) for n in range(10)]
    await turn()
    calls[3].cancel()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in outcomes] == [n == 3 for n in range(10)]
    assert (await desk.states())["pending"] >= 9


async def test_a_closed_office_says_so(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    await desk.work_queues.close()
    with pytest.raises(StoreUnavailable):
        await desk.work_queues.group_commit.submit(Operation("nothing", _nothing), 1)


async def _nothing(_: UnitOfWork, requests: Sequence[int]) -> list[int]:
    return list(requests)


async def test_the_events_of_a_transaction_tell_what_happened(desk: Desk) -> None:
    queue = await desk.queue(backoff_initial_ms=60_000)
    (message_id,) = await desk.ids(new(message_type="invoice", correlation_id="c-1"))
    (claimed,) = await desk.claim()
    await desk.settle("fail", claimed, reason="no", queue=JOBS)
    async with desk.work_queues.database.connect() as connection:
        query = select(tables.outbox.c.events).order_by(tables.outbox.c.id.desc()).limit(3)
        texts = list((await connection.execute(query)).scalars())
    events = [event for text in reversed(texts) for event in decode(text)]
    assert [event.event for event in events] == ["published", "claimed", "failed", "retried"]
    assert {(event.queue_id, event.id, event.message_type, event.correlation_id) for event in events} == {
        (queue.id, message_id, "invoice", "c-1")
    }
    assert (events[2].extras or {})["reason"] == "no"


async def test_calls_are_audited_with_their_messages(desk: Desk) -> None:
    queue = await desk.queue()
    ids = await desk.ids(new(), new())
    await desk.settle("complete", await desk.claim(2), queue=JOBS)
    async with desk.work_queues.database.connect() as connection:
        mine = tables.audit.c.queue_id == queue.id
        rows = (await connection.execute(select(tables.audit).where(mine).order_by(tables.audit.c.id))).mappings().all()
    actions = [row["action"] for row in rows if row["action"].startswith("message.")]
    assert actions == ["message.publish", "message.claim", "message.complete"]
    assert all(row["after"] == f'{{"ids":["{ids[0]}","{ids[1]}"]}}' for row in rows[-3:])
    assert rows[-1]["actor"] == desk.caller.actor


async def test_unknown_places_are_not_found(desk: Desk) -> None:
    with pytest.raises(NotFound):
        await desk.claim()
    with pytest.raises(NotFound):
        await desk.work_queues.messages.publish(desk.caller, "nowhere", JOBS, [new()])
    with pytest.raises(NotFound):
        await desk.work_queues.settlements.settle(
            desk.caller, "nowhere", "complete", [SettleItem(id="a", claim_token="b")]
        )
