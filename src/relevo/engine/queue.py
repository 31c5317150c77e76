"""A queue as producers see it: add jobs, delay them, take them back, read results, look after the dead letters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from relevo.arguments import checked_queue_name, instance, seconds
from relevo.broker.address import Address, CredentialProvider
from relevo.broker.link import Link
from relevo.broker.resp import command
from relevo.engine.admin.dead_letters import REPLAY, DeadLetterFilter, DeadLetters
from relevo.engine.admin.job_pages import Jobs
from relevo.engine.admin.queue_admin import SCRIPTS as ADMIN_SCRIPTS
from relevo.engine.admin.queue_admin import QueueAdmin
from relevo.engine.admin.results import Results
from relevo.engine.events.queue_events import QueueEvents
from relevo.engine.job.add_options import AddOptions
from relevo.engine.job.dedup import Dedup
from relevo.engine.job.job import Job
from relevo.engine.lanes.lanes import LIMIT_LANE, Lanes
from relevo.engine.producing.cancellation import CANCEL_DELAYED, Cancellations
from relevo.engine.producing.flows import SCRIPTS as FLOW_SCRIPTS
from relevo.engine.producing.flows import Flow, FlowRun, Flows
from relevo.engine.producing.job_encoder import JobEncoder
from relevo.engine.producing.pending_add import PendingAdd, PendingCall
from relevo.engine.producing.queue_options import QueueOptions
from relevo.engine.producing.scripted_adds import SCRIPTS as ADD_SCRIPTS
from relevo.engine.producing.scripted_adds import ScriptedAdds
from relevo.engine.producing.spans import ProducerSpans, carrying
from relevo.engine.producing.stream_writer import ADD_CAPPED, StreamWriter
from relevo.engine.schedules.patterns import RepeatableMeta
from relevo.engine.schedules.schedules import SCRIPTS as SCHEDULE_SCRIPTS
from relevo.engine.schedules.schedules import MissedFiresLike, RepeatLike, Schedules
from relevo.engine.service.queue_registry import registering
from relevo.errors import BadArgument, NotSupportedError, RelevoError, WrongType
from relevo.options import given
from relevo.wire.backoff import BackoffLike
from relevo.wire.delays import DelayMsLike
from relevo.wire.envelope_encoder import checked_job_id
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec

_SCRIPTS = (
    ADD_CAPPED,
    CANCEL_DELAYED,
    LIMIT_LANE,
    REPLAY,
    *ADD_SCRIPTS,
    *FLOW_SCRIPTS,
    *SCHEDULE_SCRIPTS,
    *ADMIN_SCRIPTS,
)


class _Open(NamedTuple):
    """What an open queue holds for one event loop: made at the first use, given up by `close`."""

    link: Link
    writer: StreamWriter
    results: Results
    dead: DeadLetters
    repeatables: Schedules
    lanes: Lanes
    encoder: JobEncoder

    async def close(self) -> None:
        await self.writer.close()
        await self.results.close()
        await self.link.close()


class Queue(QueueAdmin):
    """Adds jobs to a queue.

        async with Queue("emails") as queue:
            job = await queue.add("welcome", {"to": "ada@example.org"})
            await queue.add("reminder", {"to": "ada@example.org"}, delay=timedelta(hours=2))

    Connects at the first use. An add returns when Redis has the job; while Redis is away it waits up to `wait_s` for it to
    come back, and a lost answer never makes a job twice.
    """

    _codec: Codec = MSGPACK

    def __init__(
        self,
        name: str,
        *,
        redis_url: str = "redis://127.0.0.1:6379",
        tls: bool = False,
        max_stream_len: int | None = None,
        max_delay_secs: int | None = None,
        credential_provider: CredentialProvider | None = None,
        max_payload_bytes: int | None = None,
        wait_s: float = 30.0,
        consumer_group: str = "default",
        tracing: bool | None = None,
    ) -> None:
        self._settings = settings = given(QueueOptions, locals())
        self._keys = QueueKeys(checked_queue_name(name))
        self._redis_url, self._tls = redis_url, tls
        self._address = Address.parse(redis_url, tls=tls, credentials=credential_provider)
        # Workers that were told of no other cap keep this one.
        cap = () if max_stream_len is None else (command("SET", self._keys.cap, max_stream_len),)
        self._opening_words = (registering(self._keys), *cap)
        self._group = settings.consumer_group
        self._spans = ProducerSpans(name, settings.tracing)
        self._opened: dict[asyncio.AbstractEventLoop, _Open] = {}
        self._closed = False

    # --- adding --------------------------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        data: Any,
        *,
        delay_ms: DelayMsLike | None = None,
        delay: timedelta | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        job_id: str | None = None,
        repeat: RepeatLike | None = None,
        missed_fires: MissedFiresLike | None = None,
        lane: str | None = None,
        dedup: Dedup | None = None,
    ) -> Coroutine[Any, Any, Job]:
        """Adds one job: now, after `delay_ms` milliseconds, at a datetime given as `delay_ms`, or after `delay`.

        Await it, or give it to `asyncio.gather` or a task: until then nothing is added, and a warning tells if that never
        happens. Jobs given to one `gather` are added in their order.
        `attempts` and `backoff` override the workers' settings for this job. A `job_id` makes the add idempotent: the same
        id again, from any process, within an hour (of the time it is due) adds nothing and returns the same id.
        Jobs of one `lane` take turns with other lanes, in order and within the lane's limits (`Queue.lanes`); `dedup` drops,
        throttles or debounces jobs with the same key, and the returned job then has the id of the one that runs.
        With `repeat` a schedule is made instead, and the job returned has the schedule's key as its id.
        """
        if delay_ms is delay is job_id is repeat is missed_fires is lane is dedup is None:
            pending = self._plain_add(name, data, attempts, backoff)
            if pending is not None:
                return pending  # pyright: ignore[reportReturnType] - by its methods it is one
        if repeat is None and missed_fires is None:
            call = self._add(name, data, AddOptions(delay_ms, delay, attempts, backoff, job_id, lane, dedup))
        elif delay_ms is None and delay is None and repeat is not None:
            call = self.upsert_repeatable_job(
                name, data, repeat=repeat, attempts=attempts, backoff=backoff, job_id=job_id, missed_fires=missed_fires
            )
        else:
            call = self._refuse(repeat, delay_ms or delay, missed_fires)
        return PendingCall(call, name, self.name)

    def _plain_add(self, name: str, data: Any, attempts: int | None, backoff: BackoffLike | None) -> PendingAdd | None:
        """What needs no script goes without a coroutine. None when it cannot: no loop runs yet, there is a span to open, or
        something is wrong and is for whoever awaits to hear."""
        try:
            opened = self._open()
            if self._spans.wanted():
                return None
            if attempts is backoff is None:
                return opened.writer.add_one(*opened.encoder.encode_plain(name, data))
            encoded = opened.encoder.encode(name, data, AddOptions(attempts=attempts, backoff=backoff))
            return opened.writer.add_one(encoded.job, (encoded.envelope, encoded.name))
        except (RelevoError, RuntimeError):
            return None

    async def _add(self, name: str, data: Any, options: AddOptions) -> Job:
        opened = self._open()
        encoded = opened.encoder.encode(name, data, options)
        if self._spans.wanted():
            with self._spans.sending(encoded.job) as context:
                await opened.writer.send([carrying(encoded, context)])
        else:
            await opened.writer.send([encoded])
        return encoded.job

    @staticmethod
    async def _refuse(repeat: RepeatLike | None, delay: object, missed_fires: object) -> Job:
        if repeat is not None:
            remedy = "Use upsert_repeatable_job(start_after_ms=...)."
            raise BadArgument(argument="delay", value=delay, reason="a schedule has times of its own", remedy=remedy)
        remedy = "Pass `repeat` as well, or leave it out."
        raise BadArgument(argument="missed_fires", value=missed_fires, reason="nothing repeats", remedy=remedy)

    async def add_unique(
        self,
        name: str,
        data: Any,
        *,
        job_id: str,
        delay_ms: DelayMsLike | None = None,
        delay: timedelta | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        repeat: RepeatLike | None = None,
    ) -> Job:
        """`add` with the id required: see there for how long it is remembered."""
        return await self.add(
            name,
            data,
            delay_ms=delay_ms,
            delay=delay,
            attempts=attempts,
            backoff=backoff,
            job_id=checked_job_id(job_id),
            repeat=repeat,
        )

    async def add_bulk(self, jobs: Sequence[Mapping[str, Any]], *, frame: int | None = None) -> list[Job]:
        """Adds many jobs in one go, each a dict of `add`'s arguments. All are checked before the first is sent.

        A queue without room for all of the immediate ones takes none of them (those with a lane or a dedup key are judged
        one by one). With `frame` so many jobs share an entry, several times faster for short jobs that only relevo's workers
        run; docs/how-to/frames.md says what that gives up.
        """
        if isinstance(jobs, str | Mapping) or not isinstance(jobs, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType(argument="jobs", value=jobs, expected="a list of dicts")
        opened = self._open()
        if frame is not None:
            made, entries = opened.encoder.encode_frames(jobs, frame)
            if entries:
                await opened.writer.add(entries)
            return made
        traced = self._spans.wanted_for_many()
        plain = None if traced else opened.encoder.encode_plain_bulk(jobs)
        if plain is not None:
            made, entries = plain
            if entries:
                await opened.writer.add(entries)
            return made
        each_encoded = opened.encoder.encode_bulk(jobs)
        if each_encoded and traced:
            with self._spans.sending(None, len(each_encoded)) as context:
                await opened.writer.send([carrying(each, context) for each in each_encoded])
        else:
            await opened.writer.send(each_encoded)
        return [encoded.job for encoded in each_encoded]

    async def cancel(self, job_id: str) -> bool:
        """Cancels a job wherever it is: one that is delayed or waits is taken back, and the handler of a running one is
        cancelled within a moment (code on a thread runs on, but its outcome no longer counts).
        False when there is nothing to cancel: it is finished, dead, or was never here."""
        if await self.cancel_delayed(job_id):
            return True
        marks = Cancellations(self._open().link, self._keys)
        await marks.cancel(job_id)  # first the mark: wherever the job goes while we look for it, it is not run
        taken_back, there = await self.maintenance.take_back(job_id)
        if taken_back or not there:
            await marks.forget_mark(job_id)
        return there

    async def cancel_delayed(self, job_id: str) -> bool:
        """Takes back a delayed job that was added with this `job_id`; False when it is not there (any more)."""
        return await Cancellations(self._open().link, self._keys).cancel_delayed(checked_job_id(job_id))

    # --- schedules ---------------------------------------------------------------------------------------------------

    @property
    def repeatables(self) -> Schedules:
        """The schedules with everything that can be done with them; the methods below are the short forms."""
        return self._open().repeatables

    async def upsert_repeatable_job(
        self,
        name: str,
        data: Any,
        *,
        repeat: RepeatLike,
        limit: int | None = None,
        start_after_ms: int | None = None,
        end_before_ms: int | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        job_id: str | None = None,
        missed_fires: MissedFiresLike | None = None,
        key: str | None = None,
    ) -> Job:
        """Makes a schedule, or replaces the one with the same key; the returned job has that key as its id.

        Every fire of it becomes a job of its own, with `attempts` and `backoff` as in `add`. At most `limit` fires are made,
        none at or before `start_after_ms`, none after `end_before_ms`.
        """
        if job_id is not None:
            raise NotSupportedError(
                "job_id: every fire of a schedule has an id of its own; name the schedule with `key`."
            )
        meta = await self._open().repeatables.upsert_repeatable(
            name,
            data,
            repeat=repeat,
            key=key,
            limit=limit,
            start_after_ms=start_after_ms,
            end_before_ms=end_before_ms,
            attempts=attempts,
            backoff=backoff,
            missed_fires=missed_fires,
        )
        return Job(meta.key, name, data, 0, time.time_ns() // 1_000_000, self)

    async def get_repeatable_jobs(self, limit: int = 100) -> list[RepeatableMeta]:
        """Schedules in the order of their next fire."""
        return await self._open().repeatables.list(limit)

    async def remove_repeatable_by_key(self, key: str) -> bool:
        return await self._open().repeatables.remove_repeatable(key)

    async def run_repeatable_now(self, key: str) -> Job:
        """Adds a job from the schedule's recipe at once; its fires and its limit stay as they are."""
        spec = await self._open().repeatables.recipe(key)
        now_ms = time.time_ns() // 1_000_000
        opened, name = self._open(), spec.job_name
        job_id, envelope = opened.encoder.envelope(name, spec.payload, now_ms, retry=spec.retry)
        await opened.writer.add(((envelope, opened.encoder.name(name)),))
        return Job(job_id, spec.job_name, self._codec.decode(spec.payload), 0, now_ms, self)

    async def start_flow(self, flow: Flow) -> FlowRun:
        """Starts jobs that wait for each other; the returned run tells where they are and can be waited for or cancelled."""
        instance("flow", flow, Flow, remedy="Make a Flow() and add its jobs.")
        opened = self._open()
        flows, cap = Flows(opened.link, self._keys), self._settings.max_stream_len
        if not self._spans.wanted():
            return await flows.start_flow(flow, opened.encoder, cap=cap, wait_s=self._settings.wait_s)
        with self._spans.sending(None, len(flow)) as context:
            return await flows.start_flow(flow, opened.encoder, cap=cap, wait_s=self._settings.wait_s, trace=context)

    @property
    def lanes(self) -> Lanes:
        """The lanes and their limits."""
        return self._open().lanes

    # --- results -------------------------------------------------------------------------------------------------------

    async def get_job_result(self, job_id: str) -> Any:
        """What the handler returned, or None: not finished, expired, or nothing was stored."""
        return await self._open().results.get(job_id)

    async def get_job_result_bulk(self, job_ids: Sequence[str]) -> list[Any]:
        return await self._open().results.get_many(job_ids)

    async def wait_for_result(self, job_id: str, *, timeout: float = 30.0, poll_interval: float = 0.1) -> Any:
        """See `Job.wait_for_result`."""
        seconds("timeout", timeout)
        seconds("poll_interval", poll_interval)
        return await self._open().results.wait(job_id, timeout=timeout, poll_interval=poll_interval)

    # --- dead letters --------------------------------------------------------------------------------------------------

    @property
    def dead_letters(self) -> DeadLetters:
        """The dead letters with everything that can be done with them; the methods below are the short forms."""
        return self._open().dead

    async def peek_dlq(self, limit: int = 20) -> list[dict[str, Any]]:
        """The oldest dead letters, as dicts of dlq_id, source_id, reason, detail, payload and name."""
        return [letter.as_dict() for letter in await self._open().dead.peek(limit)]

    async def replay_dlq(
        self,
        limit: int = 100,
        *,
        reasons: Collection[str] = (),
        names: Collection[str] = (),
        job_ids: Collection[str] = (),
        since_ms: int | None = None,
        until_ms: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Sends dead letters back to the queue with a fresh budget of attempts; returns how many."""
        wanted = DeadLetterFilter(reasons, names, job_ids, since_ms, until_ms)
        return await self._open().dead.replay(limit, wanted, progress)

    async def purge_dlq(
        self,
        limit: int | None = None,
        *,
        reasons: Collection[str] = (),
        names: Collection[str] = (),
        job_ids: Collection[str] = (),
        since_ms: int | None = None,
        until_ms: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Deletes dead letters for good; returns how many."""
        wanted = DeadLetterFilter(reasons, names, job_ids, since_ms, until_ms)
        return await self._open().dead.purge(limit, wanted, progress)

    # --- life ----------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._keys.queue

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        """Waits for adds under way and closes the connection. Using the queue again opens it again."""
        opened, self._opened = self._opened, {}
        self._closed = True
        here = opened.pop(asyncio.get_running_loop(), None)
        for loop, elsewhere in opened.items():
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(elsewhere.close(), loop)
        if here is not None:
            await here.close()

    async def __aenter__(self) -> Queue:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open(self) -> _Open:
        """A connection belongs to one event loop. A queue may serve several: `asyncio.run` again and again, or threads."""
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None:
            for ended in [each for each in self._opened if each.is_closed()]:
                self._opened.pop(ended, None)
            keys, settings, cap = self._keys, self._settings, self._settings.max_stream_len
            link = Link(
                self._address,
                keys.tag,
                purpose="queue",
                scripts=_SCRIPTS,
                opening_words=self._opening_words,
                wait=settings.wait_s,
            )
            scripted = ScriptedAdds(link, keys, cap=cap, wait_s=settings.wait_s, group=self._group)
            writer = StreamWriter(link, keys, scripted, cap=cap)
            dead = DeadLetters(link, keys, stream_cap=cap)
            results = Results(link, keys, self.events, Jobs(link, keys, self._group), dead, self._codec)
            repeatables = Schedules(link, keys, max_payload=settings.max_payload_bytes, codec=self._codec)
            opened = self._opened[loop] = _Open(
                link,
                writer,
                results,
                dead,
                repeatables,
                Lanes(link, keys),
                JobEncoder(self._codec, settings.limits, self),
            )
            self._closed = False
        return opened

    def _admin_link(self) -> Link:
        return self._open().link

    def events(self, *, last_event_id: str = "$") -> QueueEvents:
        """A subscription to this queue's events."""
        return QueueEvents(
            self.name,
            redis_url=self._redis_url,
            tls=self._tls,
            last_event_id=last_event_id,
            credential_provider=self._address.credentials,
        )
