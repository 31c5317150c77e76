"""A queue for code without an event loop: Django, Flask, scripts. The calls of `Queue`, which return when they are done."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from relevo.broker.address import CredentialProvider
from relevo.engine.job.add_options import AddKeywords
from relevo.engine.job.job import Job
from relevo.engine.producing.flows import Flow
from relevo.engine.queue import Queue
from relevo.engine.schedules.patterns import RepeatableMeta
from relevo.engine.schedules.schedules import MissedFiresLike, RepeatLike
from relevo.engine.service.loop_thread import LOOP_THREAD
from relevo.errors import NoQueue
from relevo.wire.backoff import BackoffLike
from relevo.wire.delays import DelayMsLike
from relevo.wire.envelope_encoder import checked_job_id

T_co = TypeVar("T_co", covariant=True)
V = TypeVar("V")


class QueueKeywords(TypedDict, total=False):
    """The options of `Queue`; what each one means is told there."""

    redis_url: str
    tls: bool
    max_stream_len: int | None
    max_delay_secs: int | None
    credential_provider: CredentialProvider | None
    max_payload_bytes: int | None
    wait_s: float
    consumer_group: str
    tracing: bool | None


class ScheduleKeywords(TypedDict, total=False):
    """The options of `Queue.upsert_repeatable_job`."""

    key: str | None
    limit: int | None
    start_after_ms: int | None
    end_before_ms: int | None
    attempts: int | None
    backoff: BackoffLike | None
    missed_fires: MissedFiresLike | None


class ResultDecoder(Protocol):
    """What makes a result of its plain form: a task knows how."""

    def decode(self, form: Any) -> Any: ...


@dataclass(frozen=True)
class SyncJob(Generic[T_co]):
    """A job that was added, for code without a loop.

    >>> SyncJob("01J9", "send", {"to": "ada"}, 1_700_000_000_000).name
    'send'
    """

    id: str
    name: str
    data: Any
    created_at_ms: int
    _queue: SyncQueue | None = field(default=None, repr=False, compare=False)
    _returns: ResultDecoder | None = field(default=None, repr=False, compare=False)

    @overload
    def wait_for_result(self: SyncJob[Coroutine[Any, Any, V]], *, timeout: float = ...) -> V: ...
    @overload
    def wait_for_result(self: SyncJob[V], *, timeout: float = ...) -> V: ...
    def wait_for_result(self, *, timeout: float = 30.0) -> Any:
        """What the handler returned, once it has; see `Job.wait_for_result`."""
        if self._queue is None:
            raise NoQueue(job_id=self.id)
        value = self._queue.wait_for_result(self.id, timeout=timeout)
        return value if self._returns is None else self._returns.decode(value)


class SyncQueue:
    """Adds jobs from code without an event loop. Options are those of `Queue`, and so are the errors.

        queue = SyncQueue("emails")

        def view(request):
            welcome.enqueue_sync(queue, request.user.email)

    Make one and share it: by threads, and by processes that are forked later (each opens a connection of its own). All of a
    process share one thread with an event loop, started at the first call. Inside a running loop it refuses to block it: use
    `Queue` there.
    """

    def __init__(self, name: str, **options: Unpack[QueueKeywords]) -> None:
        self._options = options
        self._name = name
        self._queue = Queue(name, **options)
        self._pid = os.getpid()

    @property
    def name(self) -> str:
        return self._name

    # --- adding --------------------------------------------------------------------------------------------------------

    def add(self, name: str, data: Any, **options: Unpack[AddKeywords]) -> SyncJob[Any]:
        """Adds one job; options as in `Queue.add`."""
        queue = self._here()
        return self._sync(LOOP_THREAD.run(lambda: queue.add(name, data, **options), "SyncQueue.add"))

    def add_unique(
        self,
        name: str,
        data: Any,
        *,
        job_id: str,
        delay_ms: DelayMsLike | None = None,
        delay: timedelta | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
    ) -> SyncJob[Any]:
        """`add` with the id required; see `Queue.add` for how long it is remembered."""
        checked_job_id(job_id)
        return self.add(name, data, job_id=job_id, delay_ms=delay_ms, delay=delay, attempts=attempts, backoff=backoff)

    def add_bulk(self, jobs: Sequence[Mapping[str, Any]], *, frame: int | None = None) -> list[SyncJob[Any]]:
        """Adds many jobs in one go: dicts of `add`'s arguments, or calls of tasks (`send.call("ada")`)."""
        queue = self._here()
        added = LOOP_THREAD.run(lambda: queue.add_bulk(jobs, frame=frame), "SyncQueue.add_bulk")
        return [self._sync(job) for job in added]

    def start_flow(self, flow: Flow) -> str:
        """Starts jobs that wait for each other; returns the flow's id."""
        queue = self._here()
        return LOOP_THREAD.run(lambda: queue.start_flow(flow), "SyncQueue.start_flow").id

    def cancel(self, job_id: str) -> bool:
        """Cancels a job wherever it is; False when there is nothing to cancel."""
        queue = self._here()
        return LOOP_THREAD.run(lambda: queue.cancel(job_id), "SyncQueue.cancel")

    # --- schedules -----------------------------------------------------------------------------------------------------

    def upsert_repeatable_job(
        self, name: str, data: Any, *, repeat: RepeatLike, **options: Unpack[ScheduleKeywords]
    ) -> str:
        """Makes a schedule, or replaces the one with the same key; returns its key. Options as in
        `Queue.upsert_repeatable_job`."""
        queue, call = self._here(), "SyncQueue.upsert_repeatable_job"
        return LOOP_THREAD.run(lambda: queue.upsert_repeatable_job(name, data, repeat=repeat, **options), call).id

    def get_repeatable_jobs(self, limit: int = 100) -> list[RepeatableMeta]:
        """Schedules in the order of their next fire."""
        queue = self._here()
        return LOOP_THREAD.run(lambda: queue.get_repeatable_jobs(limit), "SyncQueue.get_repeatable_jobs")

    def remove_repeatable_by_key(self, key: str) -> bool:
        """Ends a schedule; False when there is none with this key."""
        queue = self._here()
        return LOOP_THREAD.run(lambda: queue.remove_repeatable_by_key(key), "SyncQueue.remove_repeatable_by_key")

    # --- results -------------------------------------------------------------------------------------------------------

    def get_job_result(self, job_id: str) -> Any:
        """What the handler returned, or None: not finished, expired, or nothing was stored."""
        queue = self._here()
        return LOOP_THREAD.run(lambda: queue.get_job_result(job_id), "SyncQueue.get_job_result")

    def wait_for_result(self, job_id: str, *, timeout: float = 30.0) -> Any:
        """What the handler returned, once it has; see `Job.wait_for_result`."""
        queue = self._here()
        return LOOP_THREAD.run(lambda: queue.wait_for_result(job_id, timeout=timeout), "SyncQueue.wait_for_result")

    # --- life ----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connection. Using the queue again opens it again."""
        LOOP_THREAD.run(self._here().close, "SyncQueue.close")

    def __enter__(self) -> SyncQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _here(self) -> Queue:
        """The queue of this process: a forked child must not touch what its parent has open."""
        if self._pid != os.getpid():
            _INHERITED.append(self._queue)
            self._queue, self._pid = Queue(self._name, **self._options), os.getpid()
        return self._queue

    def _sync(self, job: Job) -> SyncJob[Any]:
        return SyncJob(job.id, job.name, job.data, job.created_at_ms, self)


_INHERITED: list[Queue] = []
"""Kept, not closed: what a fork inherited is the parent's, and to let go of it would close it with a complaint."""
