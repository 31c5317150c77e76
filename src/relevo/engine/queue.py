"""A queue as producers see it: add jobs, delay them, take them back, read results, look after the dead letters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from relevo.broker.address import Address, CredentialProvider
from relevo.broker.link import Link
from relevo.broker.resp import Reply, command
from relevo.broker.scripts import script
from relevo.engine.backoff import BackoffLike, retry_override
from relevo.engine.dead_letters import REPLAY, DeadLetterFilter, DeadLetters
from relevo.engine.delays import DelayMsLike, run_at_ms
from relevo.engine.events import QueueEvents
from relevo.engine.job import Job
from relevo.engine.patterns import RepeatableMeta
from relevo.engine.repeatables import SCRIPTS as REPEATABLE_SCRIPTS
from relevo.engine.repeatables import MissedFiresLike, Repeatables, RepeatLike
from relevo.engine.results import Results
from relevo.engine.sender import ADD_CAPPED, Sender
from relevo.engine.validation import checked_job_id, checked_job_name, checked_queue_name, positive
from relevo.errors import (
    AddUncertain,
    BadArgument,
    ConnectionLost,
    NotSupportedError,
    PayloadTooLarge,
    QueueFull,
    ServerRefused,
    WrongType,
)
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope, encode_bare
from relevo.wire.ids import IdMint
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec

ADD_ONCE = script("add_once")
DELAY_ONCE = script("delay_once")
CANCEL_DELAYED = script("cancel_delayed")

ONCE_WINDOW_S = 3600
"""How long an id chosen by the caller is remembered after its job was due: a second add of it within is dropped."""

_BULK_KEYS = frozenset({"name", "data", "delay_ms", "delay", "attempts", "backoff", "job_id", "repeat", "missed_fires"})


class _Parcel(NamedTuple):
    """A checked and encoded job, ready to be sent."""

    job: Job
    envelope: bytes
    name: bytes
    run_at: int | None
    by_id: bool


class _Open(NamedTuple):
    """What an open queue holds for one event loop: made at the first use, given up by `close`."""

    link: Link
    sender: Sender
    results: Results
    dead: DeadLetters
    repeatables: Repeatables
    mint: IdMint

    async def close(self) -> None:
        await self.sender.close()
        await self.results.close()
        await self.link.close()


class Queue:
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
        plain_transport: bool = False,
    ) -> None:
        self._keys = QueueKeys(checked_queue_name(name))
        self._redis_url, self._tls = redis_url, tls
        self._address = Address.parse(redis_url, tls=tls, credentials=credential_provider)
        self._cap = positive("max_stream_len", 1_000_000 if max_stream_len is None else max_stream_len)
        self._max_delay_s = positive(
            "max_delay_secs", 2_592_000 if max_delay_secs is None else max_delay_secs, zero=True
        )
        self._max_payload = positive("max_payload_bytes", max_payload_bytes or 1_048_576)
        self._wait_s = wait_s
        self._plain = plain_transport
        self._opened: dict[asyncio.AbstractEventLoop, _Open] = {}
        self._closed = False

    # --- adding --------------------------------------------------------------------------------------------------------

    async def add(
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
    ) -> Job:
        """Adds one job: now, after `delay_ms` milliseconds, at a datetime given as `delay_ms`, or after `delay`.

        `attempts` and `backoff` override the workers' settings for this job. A `job_id` makes the add idempotent: the same
        id again, from any process, within an hour (of the time it is due) adds nothing and returns the same id.
        With `repeat` a schedule is made instead, and the job returned has the schedule's key as its id.
        """
        if repeat is not None:
            if delay_ms is not None or delay is not None:
                remedy = "Use upsert_repeatable_job(start_after_ms=...)."
                raise BadArgument(
                    argument="delay", value=delay_ms or delay, reason="a schedule has slots", remedy=remedy
                )
            return await self.upsert_repeatable_job(
                name, data, repeat=repeat, attempts=attempts, backoff=backoff, job_id=job_id, missed_fires=missed_fires
            )
        if missed_fires is not None:
            remedy = "Pass `repeat` as well, or leave it out."
            raise BadArgument(argument="missed_fires", value=missed_fires, reason="nothing repeats", remedy=remedy)
        parcel = self._parcel(name, data, delay_ms, delay, attempts, backoff, job_id)
        if parcel.run_at is None and not parcel.by_id:
            await self._open().sender.add(((parcel.envelope, parcel.name),))
        else:
            await self._send_special([parcel])
        return parcel.job

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
        )

    async def add_bulk(self, jobs: Sequence[Mapping[str, Any]]) -> list[Job]:
        """Adds many jobs in one go, each a dict of `add`'s arguments. All are checked before the first is sent.

        A queue without room for all of the immediate ones takes none of them.
        """
        parcels = [self._bulk_parcel(at, job) for at, job in enumerate(jobs)]
        plain = [(each.envelope, each.name) for each in parcels if each.run_at is None and not each.by_id]
        special = [each for each in parcels if each.run_at is not None or each.by_id]
        if plain and special:
            await asyncio.gather(self._open().sender.add(plain), self._send_special(special))
        elif plain:
            await self._open().sender.add(plain)
        elif special:
            await self._send_special(special)
        return [each.job for each in parcels]

    async def cancel_delayed(self, job_id: str) -> bool:
        """Takes back a delayed job that was added with this `job_id`; False when it is not there (any more)."""
        keys = self._keys
        found = [keys.delayed, keys.member_of(job_id), keys.once(job_id)]
        return await self._open().link.run(CANCEL_DELAYED, found) == 1

    # --- schedules ---------------------------------------------------------------------------------------------------

    @property
    def repeatables(self) -> Repeatables:
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

        Every slot of it becomes a job of its own, with `attempts` and `backoff` as in `add`. At most `limit` slots fire,
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
        """Adds a job from the schedule's recipe at once; its slots and its limit stay as they are."""
        spec = await self._open().repeatables.recipe(key)
        now_ms = time.time_ns() // 1_000_000
        envelope = Envelope(self._open().mint(now_ms), spec.payload, now_ms, 0, spec.retry)
        await self._open().sender.add(((envelope.encode(), spec.job_name.encode()),))
        return Job(envelope.id, spec.job_name, self._codec.decode(spec.payload), 0, now_ms, self)

    # --- results -------------------------------------------------------------------------------------------------------

    async def get_job_result(self, job_id: str) -> Any:
        """What the handler returned, or None: not finished, expired, or nothing was stored."""
        return await self._open().results.get(job_id)

    async def get_job_result_bulk(self, job_ids: Sequence[str]) -> list[Any]:
        return await self._open().results.get_many(job_ids)

    async def wait_for_result(self, job_id: str, *, timeout: float = 30.0, poll_interval: float = 0.1) -> Any:
        """See `Job.wait_for_result`."""
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
            keys, scripts = self._keys, (ADD_CAPPED, ADD_ONCE, DELAY_ONCE, CANCEL_DELAYED, REPLAY, *REPEATABLE_SCRIPTS)
            link = Link(self._address, keys.tag, purpose="queue", scripts=scripts, wait=self._wait_s, plain=self._plain)
            sender = Sender(link, keys, cap=self._cap)
            results = Results(link, keys, self.events, self._codec)
            dead = DeadLetters(link, keys, stream_cap=self._cap)
            repeatables = Repeatables(link, keys, max_payload=self._max_payload, codec=self._codec)
            opened = self._opened[loop] = _Open(link, sender, results, dead, repeatables, IdMint())
            self._closed = False
        return opened

    def events(self, *, last_event_id: str = "$") -> QueueEvents:
        """A subscription to this queue's events."""
        return QueueEvents(self.name, redis_url=self._redis_url, tls=self._tls, last_event_id=last_event_id)

    # --- from arguments to bytes -----------------------------------------------------------------------------------------

    def _parcel(
        self,
        name: str,
        data: Any,
        delay_ms: DelayMsLike | None,
        delay: timedelta | None,
        attempts: int | None,
        backoff: BackoffLike | None,
        job_id: str | None,
    ) -> _Parcel:
        encoded_name = checked_job_name(name)
        now_ms = time.time_ns() // 1_000_000
        run_at = None
        if delay_ms is not None or delay is not None:
            run_at = run_at_ms(delay_ms, delay, now_ms=now_ms, max_delay_s=self._max_delay_s)
        by_id = job_id is not None
        job_id = self._open().mint(now_ms) if job_id is None else checked_job_id(job_id)
        payload = self._codec.encode(data, name)
        retry = retry_override(attempts, backoff)
        head = (job_id, payload, now_ms, 0)
        envelope = encode_bare(head if retry is None else (*head, retry))
        if len(envelope) > self._max_payload:
            raise PayloadTooLarge(job=name, size=len(envelope), limit=self._max_payload)
        return _Parcel(Job(job_id, name, data, 0, now_ms, self), envelope, encoded_name, run_at, by_id)

    def _bulk_parcel(self, at: int, job: Mapping[str, Any]) -> _Parcel:
        if not isinstance(job, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType(argument=f"jobs[{at}]", value=job, kind=type(job).__name__, remedy="pass a dict.")
        unknown = set(job) - _BULK_KEYS
        if unknown or "name" not in job or "data" not in job:
            reason = f"unknown {sorted(unknown)}" if unknown else "no `name` or no `data`"
            remedy = f"Use {', '.join(sorted(_BULK_KEYS))}."
            raise BadArgument(argument=f"jobs[{at}]", value=dict(job), reason=reason, remedy=remedy)
        if job.get("repeat") is not None or job.get("missed_fires") is not None:
            raise NotSupportedError(f"jobs[{at}]: schedules are made one by one, with `upsert_repeatable_job`.")
        return self._parcel(
            job["name"], job["data"], job.get("delay_ms"), job.get("delay"),
            job.get("attempts"), job.get("backoff"), job.get("job_id"),
        )  # fmt: skip

    # --- what the sender does not do: delayed jobs, and ids of the caller ---------------------------------------------------

    async def _send_special(self, parcels: list[_Parcel]) -> None:
        """One pipeline; sent again after a lost connection, since every command in it may be repeated."""
        link = self._open().link
        started = time.monotonic()
        tried = False
        while True:
            try:
                await link.ready(wait=max(0.001, self._wait_s - (time.monotonic() - started)))
                if tried:
                    self._check_repeatable(parcels)
                tried = True
                replies = await link.send(b"".join(self._special(link, each) for each in parcels), len(parcels))
                break
            except ConnectionLost:
                continue
        for parcel, reply in zip(parcels, replies, strict=True):
            self._check(parcel, link.checked(reply, "the add"))

    def _special(self, link: Link, parcel: _Parcel) -> bytes:
        keys, job_id = self._keys, parcel.job.id
        if parcel.run_at is None:
            arguments = (ONCE_WINDOW_S, self._cap, parcel.envelope, parcel.name)
            return link.script_call(ADD_ONCE, [keys.once(job_id), keys.stream], arguments)
        member = DelayedMember(parcel.job.name, parcel.envelope).encode()
        if not parcel.by_id:
            return command("ZADD", keys.delayed, parcel.run_at, member)
        window = max(1, (parcel.run_at - parcel.job.created_at_ms) // 1000) + ONCE_WINDOW_S
        places = [keys.once(job_id), keys.delayed, keys.member_of(job_id)]
        return link.script_call(DELAY_ONCE, places, (window, parcel.run_at, member))

    @staticmethod
    def _check_repeatable(parcels: list[_Parcel]) -> None:
        """A delayed add without an id may be repeated only while it cannot have been promoted yet."""
        soon = time.time_ns() // 1_000_000 + 1000
        for parcel in parcels:
            if parcel.run_at is not None and not parcel.by_id and parcel.run_at < soon:
                raise AddUncertain(job_id=parcel.job.id)

    def _check(self, parcel: _Parcel, reply: Reply) -> None:
        if parcel.run_at is None and reply[0] == -1:
            raise QueueFull(queue=self.name, length=reply[1], cap=self._cap)
        if isinstance(reply, Exception):
            raise ServerRefused(command="the add", reason=str(reply))
