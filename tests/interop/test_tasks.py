"""Tasks and PyPI's chasquimq: its producers' jobs run as tasks, and its workers read what our tasks send."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from relevo import Tasks
from relevo.wire.keys import QueueKeys
from tests.interop.conftest import Until
from tests.pace import limit
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop


async def test_a_job_of_their_producer_is_tried_as_often_as_its_task_says(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    tasks: Tasks[None] = Tasks()
    runs: list[int] = []

    @tasks.task(attempts=2, backoff=1)
    async def charge(amount: int) -> None:
        runs.append(amount)
        raise ValueError("declined")

    await theirs.queue().add("charge", {"amount": 5})
    async with ours.worker(tasks):
        await until(lambda: redis86.call("XLEN", keys.dead) == 1)
    assert runs == [5, 5]


@dataclass
class Order:
    id: UUID
    total: Decimal


async def test_their_worker_reads_what_a_typed_task_sends(theirs: Side, ours: Side) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def book(order: Order, when: datetime, *, days: set[date]) -> None: ...

    order = Order(UUID(int=1), Decimal("9.90"))
    moment, day = datetime(2026, 1, 31, 8, tzinfo=UTC), date(2026, 2, 1)
    runs = Runs()
    async with theirs.worker(runs):
        await book.enqueue(ours.queue(), order, moment, days={day})
        (job,) = await runs.until(1)
    assert job.data == {
        "args": [{"id": "00000000-0000-0000-0000-000000000001", "total": "9.90"}, "2026-01-31T08:00:00+00:00"],
        "kwargs": {"days": ["2026-02-01"]},
    }


async def test_a_typed_task_reads_what_their_producer_sends(theirs: Side, ours: Side) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def book(order: Order, when: datetime) -> Decimal:
        assert when == datetime(2026, 1, 31, 8, tzinfo=UTC)
        return order.total * 2

    data = {"order": {"id": str(UUID(int=1)), "total": "9.90"}, "when": "2026-01-31T08:00:00Z"}
    async with ours.worker(tasks, store_results=True):
        job = await theirs.queue().add("book", data)
        assert await job.wait_for_result(timeout=limit(20)) == "19.80"
