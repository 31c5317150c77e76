"""Arguments and results of tasks: typed at both ends, plain on the wire, and checked before anything is sent."""

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from relevo import Flow, Queue, RepeatPattern, TaskContext, Tasks
from relevo.errors import BadTaskCall
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.pace import limit
from tests.servers.server import Client

ONE = UUID("12345678-1234-5678-1234-567812345678")
MOMENT = datetime(2026, 1, 31, 8, tzinfo=UTC)


class Colour(enum.Enum):
    RED = "red"


class Place(NamedTuple):
    x: int
    y: int


@dataclass
class Order:
    id: UUID
    total: Decimal
    due: date


class Person(BaseModel):
    name: str
    born: date


class Event(msgspec.Struct):
    at: datetime


async def test_arguments_and_results_come_back_as_what_they_were(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()
    given: list[Any] = []

    @tasks.task()
    async def work(
        when: datetime,
        wait: timedelta,
        order: Order,
        person: Person | None,
        *places: Place,
        colour: Colour = Colour.RED,
        files: set[Path],
        event: Event,
        blob: bytes,
        more: dict[UUID, tuple[Decimal, date]] | None = None,
    ) -> tuple[Order, set[UUID]]:
        given.append((when, wait, order, person, places, colour, files, event, blob, more))
        return order, {ONE}

    order = Order(ONE, Decimal("9.90"), date(2026, 1, 31))
    person = Person(name="Ada", born=date(1815, 12, 10))
    more = {ONE: (Decimal(1), date(2026, 1, 1))}
    files, event = {Path("a"), Path("b")}, Event(MOMENT)
    async with worker_of(tasks, store_results=True):
        job = await work.enqueue(
            queue,
            MOMENT,
            timedelta(hours=1),
            order,
            person,
            Place(1, 2),
            files=files,
            event=event,
            blob=b"\xff",
            more=more,
        )
        result = await job.wait_for_result(timeout=limit(20))
        plain = await queue.wait_for_result(job.id, timeout=limit(20))
    assert given == [
        (MOMENT, timedelta(hours=1), order, person, (Place(1, 2),), Colour.RED, files, event, b"\xff", more)
    ]
    assert result == (order, {ONE})
    assert isinstance(result, tuple)
    assert plain == [{"id": str(ONE), "total": "9.90", "due": "2026-01-31"}, [str(ONE)]]


async def test_other_languages_send_and_read_plain_values(queue: Queue, queue_of: QueueOf, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def later(when: datetime, by: timedelta = timedelta(days=1), colour: Colour | None = None) -> datetime:
        assert colour in (None, Colour.RED)
        return when + by

    async with worker_of(tasks, store_results=True):
        jobs = [
            await queue.add("later", {"when": "2026-01-31T08:00:00Z"}),
            await queue.add("later", {"args": ["2026-01-31T08:00:00Z"], "kwargs": {"by": 86400, "colour": "red"}}),
        ]
        assert [await job.wait_for_result(timeout=limit(20)) for job in jobs] == ["2026-02-01T08:00:00+00:00"] * 2
    enqueued = await later.enqueue(queue, MOMENT, by=timedelta(hours=2))
    assert enqueued.data == {"args": ["2026-01-31T08:00:00+00:00"], "kwargs": {"by": "PT7200S"}}


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        ({"when": "tomorrow"}, "argument 'when': expected datetime, got str 'tomorrow'"),
        ({"args": [5]}, "argument 'when': expected datetime, got int 5"),
        ({"when": "2026-01-31T08:00", "places": [[1, "2"]]}, "argument 'places[0].y': expected int, got str '2'"),
        ({"places": []}, "missing a required argument: 'when'"),
    ],
)
async def test_data_that_does_not_fit_is_dead_at_once_and_names_the_argument(
    queue: Queue, worker_of: WorkerOf, data: Any, detail: str
) -> None:
    tasks: Tasks[None] = Tasks()
    runs: list[datetime] = []

    @tasks.task()
    async def work(when: datetime, places: list[Place] | None = None) -> None:
        runs.append(when)

    async with worker_of(tasks) as worker:
        await queue.add("work", data)
        total = await worker.until(dead=1)
    (letter,) = await queue.peek_dlq()
    assert (letter["reason"], runs, total.retried) == ("unrecoverable", [], 0)
    assert detail in letter["detail"]


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        (("2026-01-31",), {}, r"work\(\) argument 'when': expected datetime, got str '2026-01-31'"),
        ((MOMENT, [Place(1, cast("int", "2"))]), {}, r"work\(\) argument 'places\[0\].y': expected int, got str '2'"),
        ((MOMENT,), {"places": [(1, 2)]}, r"work\(\) argument 'places\[0\]': expected Place, got tuple \(1, 2\)"),
        ((MOMENT,), {"when": MOMENT}, r"work\(\) multiple values for argument 'when'"),
        ((), {}, r"work\(\) missing a required argument: 'when'"),
        ((MOMENT,), {"wrong": 1}, r"work\(\) got an unexpected keyword argument 'wrong'"),
        ((MOMENT, None, 1, 2), {}, r"work\(\) too many positional arguments"),
        (
            (MOMENT, None, {1, 2}),
            {},
            r"work\(\) argument 'anything': set \{1, 2\} cannot be sent: annotate the parameter",
        ),
        ((MOMENT, None, 2**70), {}, r"work\(\) argument 'anything': int 1180591620717411303424 cannot be sent"),
    ],
)
async def test_a_call_that_does_not_fit_is_refused_before_anything_is_sent(
    queue: Queue, args: Any, kwargs: Any, said: str
) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def work(
        context: TaskContext[None], when: datetime, places: list[Place] | None = None, anything: Any = None
    ) -> None: ...

    with pytest.raises(BadTaskCall, match=said):
        await work.enqueue(queue, *args, **kwargs)
    assert await queue.count() == 0


async def test_calls_are_added_in_bulk_in_flows_and_by_schedules(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()
    runs: list[tuple[str, date]] = []

    @tasks.task(attempts=1)
    async def book(label: str, day: date) -> date:
        runs.append((label, day))
        return day

    day = date(2026, 1, 31)
    flow = Flow()
    flow.add(book.call("first", day), key="one")
    flow.add(book.call("second", day=day), key="two", after=["one"])
    async with worker_of(tasks, scheduler_tick_ms=20, store_results=True) as worker:
        jobs = await queue.add_bulk([book.call("bulk", day), book.options(lane="a").call("laned", day)])
        await queue.add_bulk([book.call("framed", day)], frame=4)
        run = await queue.start_flow(flow)
        await queue.upsert_repeatable_job(**book.call("scheduled", day), repeat=RepeatPattern.every(5), limit=1)
        await worker.until(done=6)
        state = await run.wait()
    assert sorted(runs) == [(label, day) for label in ("bulk", "first", "framed", "laned", "scheduled", "second")]
    assert [job.name for job in jobs] == ["book", "book"]
    assert state.jobs["two"].value == "2026-01-31"


async def test_a_function_that_returns_something_else_than_it_says_has_succeeded(
    queue: Queue, worker_of: WorkerOf
) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def odd() -> Decimal:
        return "text"  # pyright: ignore[reportReturnType]

    async with worker_of(tasks, store_results=True):
        assert await (await odd.enqueue(queue)).wait_for_result(timeout=limit(20)) == "text"


async def test_arguments_of_a_task_on_a_thread_and_its_result_are_typed_too(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task(timeout_s=limit(20))
    def price(order: Order) -> Decimal:
        return order.total * 2

    async with worker_of(tasks, store_results=True):
        job = await price.enqueue(queue, Order(ONE, Decimal("1.5"), date(2026, 1, 31)))
        assert await job.wait_for_result(timeout=limit(20)) == Decimal("3.0")


async def test_what_is_stored_is_plain_msgpack(queue: Queue, raw: Client) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def work(order: Order, colours: set[Colour]) -> None: ...

    await work.enqueue(queue, Order(ONE, Decimal("1.5"), date(2026, 1, 31)), {Colour.RED})
    (found,) = (await queue.get_jobs("waiting"))[:1]
    assert found.data == {"args": [{"id": str(ONE), "total": "1.5", "due": "2026-01-31"}, ["red"]], "kwargs": {}}
