"""What an application sees: jobs live and die with its transaction."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from datetime import date, timedelta
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from relevo import BackoffSpec, Dedup, Queue, Tasks
from relevo.errors import BadArgument, BadTaskCall, NotEncodable, PayloadTooLarge, WrongType
from relevo.outbox import Outbox, OutboxRelay, OutboxTable
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import decode_payload
from tests.outbox.database import Author, Database, done
from tests.servers.server import Client, Server

tasks: Tasks[None] = Tasks()


@tasks.task()
async def confirm(order: int, *, to: str) -> None: ...


async def test_a_job_is_sent_after_the_commit_and_its_row_is_gone(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    async with database.session() as session:
        added = await outbox.add(session, queue.name, "confirm", {"order": 17})
    assert await relay.drain() == 1
    (job,) = await queue.get_jobs("waiting")
    assert (job.id, job.name, job.data) == (added.id, "confirm", {"order": 17})
    assert await database.rows() == []


async def test_nothing_is_sent_before_the_commit(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    if database.url.startswith("sqlite"):
        # Its one writer holds the file: a relay could only wait for it. Look at what is in Redis instead.
        async with database.session() as session:
            await outbox.add(session, queue.name, "confirm", {})
            assert await queue.count() == 0
    else:
        async with database.session() as session:
            await outbox.add(session, queue.name, "confirm", {})
            assert await relay.drain() == 0
            assert await queue.count() == 0
    assert await relay.drain() == 1


async def test_a_rollback_leaves_nothing(database: Database, outbox: Author, relay: OutboxRelay, queue: Queue) -> None:
    async def failing_transaction() -> None:
        async with database.session() as session:
            await outbox.add(session, queue.name, "confirm", {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing_transaction()
    assert await database.rows() == []
    assert await relay.drain() == 0


async def test_a_rolled_back_savepoint_takes_only_its_own_jobs(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    async with database.session() as session:
        await outbox.add(session, queue.name, "kept", {})
        savepoint = await done(session.begin_nested())
        await outbox.add(session, queue.name, "dropped", {})
        await done(savepoint.rollback())
    await relay.drain()
    assert [job.name for job in await queue.get_jobs("waiting")] == ["kept"]


async def test_a_connection_will_do_as_well_as_a_session(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    async with database.connection() as connection:
        await outbox.add(connection, queue.name, "confirm", {})
    assert await relay.drain() == 1
    assert await queue.count() == 1


async def test_a_task_is_enqueued_like_a_call(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    async with database.session() as session:
        await outbox.enqueue(session, queue.name, confirm.options(attempts=3), 17, to="ada@example.org")
    await relay.drain()
    (job,) = await queue.get_jobs("waiting")
    assert (job.name, job.data) == ("confirm", {"args": [17], "kwargs": {"to": "ada@example.org"}})


async def test_every_option_of_an_add_travels(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue, server: Server, raw: Client
) -> None:
    throttle = Dedup.throttle("confirm-17", timedelta(hours=1))
    options: dict[str, Any] = {
        "attempts": 7,
        "backoff": BackoffSpec.exponential(50, max_ms=900, jitter_ms=3),
        "lane": "tenant-1",
        "dedup": throttle,
        "job_id": "order-17",
    }
    async with database.session() as session:
        await outbox.add(session, queue.name, "confirm", {"n": 1}, **options)
        await outbox.add(session, queue.name, "confirm", {"n": 2}, dedup=throttle)
    assert await relay.drain() == 2
    async with Queue(f"{queue.name}-direct", redis_url=server.url) as direct:
        await direct.add("confirm", {"n": 1}, **options)
        assert await stored(raw, queue.name) == await stored(raw, direct.name)
        await direct.obliterate(force=True)
    await queue.obliterate(force=True)


async def stored(raw: Client, queue_name: str) -> list[tuple[Any, ...]]:
    """The jobs of a queue as they are in Redis, without the time they were made at."""
    keys = QueueKeys(queue_name)
    jobs: list[tuple[Any, ...]] = []
    for _, fields in await raw.xrange(keys.stream):
        read = Envelope.decode(fields[b"d"])
        jobs.append((read.id, fields[b"n"], read.payload, read.retry, await raw.hget(keys.notes, read.id)))
    assert jobs
    return jobs


async def test_a_delay_counts_from_the_add(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    async with database.session() as session:
        await outbox.add(session, queue.name, "later", {}, delay=timedelta(hours=1))
        await outbox.add(session, queue.name, "soon", {}, delay_ms=1)
    (later, soon) = await database.rows()
    assert later.run_at_ms - later.created_at_ms == pytest.approx(3_600_000, abs=1_000)
    while soon.run_at_ms > (await queue_time_ms(queue)):
        pass
    assert await relay.drain() == 2
    assert [job.name for job in await queue.get_jobs("waiting")] == ["soon"]
    assert [job.name for job in await queue.get_jobs("delayed")] == ["later"]


async def queue_time_ms(queue: Queue) -> int:
    seconds, micros = await queue.jobs._link.call("TIME")  # pyright: ignore[reportPrivateUsage]
    return int(seconds) * 1000 + int(micros) // 1000


async def test_what_cannot_be_sent_is_refused_before_the_commit(database: Database, queue_name: str) -> None:
    outbox = Author(Outbox(database.table, max_payload_bytes=1_000))
    async with database.session() as session:
        with pytest.raises(NotEncodable):
            await outbox.add(session, queue_name, "confirm", {"when": object()})
        with pytest.raises(PayloadTooLarge):
            await outbox.add(session, queue_name, "confirm", "x" * 2_000)
        with pytest.raises(BadArgument, match="debounced job has no id"):
            await outbox.add(session, queue_name, "x", {}, dedup=Dedup.debounce("k", timedelta(seconds=1)))
        with pytest.raises(BadArgument, match="longer than 255"):
            await outbox.add(session, queue_name, "x", {}, job_id="i" * 256)
        with pytest.raises(BadArgument, match="braces"):
            await outbox.add(session, "{q}", "x", {})
    assert await database.rows() == []


def test_a_call_of_a_task_is_checked_and_made_plain_like_one_that_is_enqueued() -> None:
    outbox = Outbox(OutboxTable())
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def remind(day: date, anything: Any = None) -> None: ...

    row = outbox.task_row("q", remind, date(2026, 1, 31))
    assert decode_payload(row["data"]) == {"args": ["2026-01-31"], "kwargs": {}}
    with pytest.raises(BadTaskCall, match="argument 'day': expected date, got str 'today'"):
        outbox.task_row("q", remind, "today")  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadTaskCall, match=r"argument 'anything': object .* cannot be sent"):
        outbox.task_row("q", remind, date(2026, 1, 31), object())


def test_something_else_than_a_session_is_refused_with_the_way_out() -> None:
    outbox = Outbox(OutboxTable())
    with pytest.raises(WrongType, match=r"Outbox\.row"):
        outbox.add("session", "q", "x", {})  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_the_table_is_in_the_metadata_of_the_application() -> None:
    metadata = MetaData()
    OutboxTable(metadata, name="jobs_to_send", schema="app")
    assert list(metadata.tables) == ["app.jobs_to_send"]


def types_of_a_call(outbox: Outbox, session: Session, asynchronous: AsyncSession) -> None:
    """Checked by pyright and never called: the wrong calls below have to be errors, or their comments are unneeded."""
    outbox.enqueue(session, "emails", confirm, 17, to="ada@example.org").id.upper()
    outbox.enqueue(asynchronous, "emails", confirm, 17, to="ada@example.org").__await__()
    outbox.enqueue(session, "emails", confirm, "17", to="a")  # pyright: ignore[reportArgumentType, reportCallIssue]
    outbox.enqueue(session, "emails", confirm, 17)  # pyright: ignore[reportCallIssue]
