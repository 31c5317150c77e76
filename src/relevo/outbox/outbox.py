"""Enqueues jobs inside the caller's database transaction: they are sent after its commit, and never when it is rolled back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, Unpack, cast, overload

from sqlalchemy import Connection, Executable, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from relevo.arguments import checked_queue_name, instance
from relevo.engine.job.add_options import AddKeywords, AddOptions
from relevo.engine.job.job import Job
from relevo.engine.producing.job_encoder import JobEncoder
from relevo.engine.tasks import Task
from relevo.errors import BadArgument, NotEncodable, WrongType
from relevo.outbox.entry import Options
from relevo.outbox.table import ID_LENGTH, QUEUE_LENGTH, OutboxTable
from relevo.wire.envelope import Envelope
from relevo.wire.limits import QueueLimits
from relevo.wire.payload import MSGPACK

P = ParamSpec("P")

SyncPlace = Session | scoped_session[Any] | Connection
AsyncPlace = AsyncSession | async_scoped_session[Any] | AsyncConnection


class Outbox:
    """Adds jobs to the outbox of one table.

        with Session(engine) as session, session.begin():
            session.add(order)
            outbox.add(session, "emails", "confirm", {"order": order.id})

    With an `AsyncSession` or `AsyncConnection` write `await outbox.add(...)`. The job has its id at once; an `OutboxRelay`,
    here or in another process, sends it after the commit. Arguments are checked here, so that nothing is committed that
    could not be sent.
    """

    def __init__(
        self, table: OutboxTable, *, max_payload_bytes: int = 1_048_576, max_delay_secs: int = 2_592_000
    ) -> None:
        self._table = instance("table", table, OutboxTable)
        self._encoder = JobEncoder(
            MSGPACK, QueueLimits(max_payload_bytes=max_payload_bytes, max_delay_secs=max_delay_secs)
        )

    @overload
    def add(self, session: SyncPlace, queue_name: str, name: str, data: Any, **options: Unpack[AddKeywords]) -> Job: ...
    @overload
    def add(
        self, session: AsyncPlace, queue_name: str, name: str, data: Any, **options: Unpack[AddKeywords]
    ) -> Awaitable[Job]: ...
    def add(
        self, session: SyncPlace | AsyncPlace, queue_name: str, name: str, data: Any, **options: Unpack[AddKeywords]
    ) -> Job | Awaitable[Job]:
        """Writes a job into the outbox, in the transaction that `session` is in; options are those of `Queue.add`.

        A delay counts from here. The job of a `job_id` that was added within the last hour is dropped when it is sent.
        """
        job, row = self._row(queue_name, name, data, AddOptions(**options))
        return self._insert(session, job, row)

    @overload
    def enqueue(
        self, session: SyncPlace, queue_name: str, task: Task[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job: ...
    @overload
    def enqueue(
        self, session: AsyncPlace, queue_name: str, task: Task[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[Job]: ...
    def enqueue(
        self, session: SyncPlace | AsyncPlace, queue_name: str, task: Task[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job | Awaitable[Job]:
        """Writes a call of `task` into the outbox; checked by the type checker like the call itself."""
        job, row = self._task_row(queue_name, task, args, kwargs)
        return self._insert(session, job, row)

    def row(self, queue_name: str, name: str, data: Any, **options: Unpack[AddKeywords]) -> dict[str, Any]:
        """The row that `add` would insert, for transactions of another library than SQLAlchemy (Django's, psycopg's):
        insert it yourself, with these column names. Its `job_id` is the job's id."""
        return self._row(queue_name, name, data, AddOptions(**options))[1]

    def task_row(self, queue_name: str, task: Task[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """`row` for a call of a task."""
        return self._task_row(queue_name, task, args, kwargs)[1]

    # --- the row -------------------------------------------------------------------------------------------------------

    def _task_row(
        self, queue_name: str, task: Task[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Job, dict[str, Any]]:
        try:
            return self._row(queue_name, task.name, task.arguments.pack(args, kwargs), task.add_options)
        except NotEncodable as error:
            raise task.arguments.unencodable(args, kwargs, error) from None

    def _row(self, queue_name: str, name: str, data: Any, options: AddOptions) -> tuple[Job, dict[str, Any]]:
        _short_enough("queue_name", checked_queue_name(queue_name), QUEUE_LENGTH)
        if options.dedup is not None and options.dedup.kind == "debounce":
            remedy = "Debounce where the job is handled, or use Dedup.throttle."
            reason = "a debounced job has no id of its own, and the outbox could send it twice"
            raise BadArgument(argument="dedup", value=options.dedup, reason=reason, remedy=remedy)
        # Whatever `Queue.add` would refuse is refused here, before the commit; the relay adds what the envelope holds.
        encoded = self._encoder.encode(name, data, options)
        envelope, job = Envelope.decode(encoded.envelope), encoded.job
        _short_enough("job_id", job.id, ID_LENGTH)
        lane = None if encoded.notes is None else encoded.notes.lane
        return job, {
            "job_id": job.id,
            "queue": queue_name,
            "name": name,
            "data": envelope.payload,
            "options": Options.of(envelope.retry, lane, options.dedup).encode(),
            "run_at_ms": encoded.run_at,
            "created_at_ms": envelope.created_at_ms,
        }

    def _insert(self, place: SyncPlace | AsyncPlace, job: Job, row: dict[str, Any]) -> Job | Awaitable[Job]:
        statement = insert(self._table.table).values(row)
        if isinstance(place, AsyncSession | async_scoped_session | AsyncConnection):
            return self._insert_async(place, job, statement)
        if isinstance(place, Session | scoped_session | Connection):  # pyright: ignore[reportUnnecessaryIsInstance]
            _run(place.execute, statement)
            self._table.commits.notify_after_commit(place() if isinstance(place, scoped_session) else place)
            return job
        expected = "Session, Connection, AsyncSession or AsyncConnection"
        raise WrongType(
            argument="session", value=place, expected=expected, remedy="For other libraries see `Outbox.row`."
        )

    async def _insert_async(self, place: AsyncPlace, job: Job, statement: Executable) -> Job:
        await cast("Awaitable[Any]", _run(place.execute, statement))
        if isinstance(place, AsyncConnection):
            assert place.sync_connection is not None, "it has just executed something"
            self._table.commits.notify_after_commit(place.sync_connection)
        else:
            session: AsyncSession = place() if isinstance(place, async_scoped_session) else place
            self._table.commits.notify_after_commit(session.sync_session)
        return job


def _run(execute: Callable[..., Any], statement: Executable) -> Any:
    """The four kinds have one `execute`, but types of it that no checker unites."""
    return execute(statement)


def _short_enough(argument: str, value: str, limit: int) -> None:
    if len(value) > limit:
        remedy = "Shorten it, or send this job without the outbox."
        raise BadArgument(argument=argument, value=value, reason=f"longer than {limit} characters", remedy=remedy)
