"""Checks a job and encodes it, ready to be sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from relevo.engine.job.add_options import OPTION_NAMES, PLAIN, AddOptions
from relevo.engine.job.backoff import retry_override
from relevo.engine.job.dedup import Dedup
from relevo.engine.job.delays import run_at_ms
from relevo.engine.job.job import Job, ResultSource
from relevo.engine.job.validation import checked_job_id, checked_job_name, known_names, positive
from relevo.engine.lanes.lanes import checked_lane
from relevo.errors import BadArgument, NotSupportedError, PayloadTooLarge, RelevoError, WrongType
from relevo.wire.envelope import encode_bare
from relevo.wire.frame import MOST_JOBS, framed
from relevo.wire.ids import IdMint
from relevo.wire.notes import Notes
from relevo.wire.payload import Codec

_BULK_KEYS = OPTION_NAMES | {"name", "data", "repeat", "missed_fires"}


class EncodedJob(NamedTuple):
    """What is sent, and how: at once with many others (`plain`), or by a script of its own."""

    job: Job
    envelope: bytes
    name: bytes
    run_at: int | None
    by_id: bool
    dedup: Dedup | None
    notes: Notes | None

    @property
    def plain(self) -> bool:
        return self.run_at is None and not self.by_id and self.dedup is None and self.notes is None


class JobEncoder:
    """Encodes the jobs of one queue, by its limits and its codec."""

    def __init__(self, codec: Codec, *, max_payload: int, max_delay_s: int) -> None:
        self._codec = codec
        self._max_payload = max_payload
        self._max_delay_s = max_delay_s
        self._names: dict[str, bytes] = {}

    def encode(
        self,
        mint: Callable[[int], str],
        name: str,
        data: Any,
        options: AddOptions = PLAIN,
    ) -> EncodedJob:
        """Everything is checked here, before anything is sent."""
        encoded_name = checked_job_name(name)
        now_ms = time.time_ns() // 1_000_000
        run_at, lane, dedup = None, options.lane, options.dedup
        if options.delay_ms is not None or options.delay is not None:
            run_at = run_at_ms(options.delay_ms, options.delay, now_ms=now_ms, max_delay_s=self._max_delay_s)
        by_id = options.job_id is not None
        job_id = mint(now_ms) if options.job_id is None else checked_job_id(options.job_id)
        payload = self._codec.encode(data, name)
        retry = retry_override(options.attempts, options.backoff)
        head = (job_id, payload, now_ms, 0)
        envelope = encode_bare(head if retry is None else (*head, retry))
        if len(envelope) > self._max_payload:
            raise PayloadTooLarge(job=name, size=len(envelope), limit=self._max_payload)
        notes = None
        if lane is not None or dedup is not None:
            notes = _noted(lane, dedup)
            if dedup is not None and dedup.kind == "debounce":
                run_at = _debounced(dedup, run_at, lane, by_id, now_ms)
        return EncodedJob(Job(job_id, name, data, 0, now_ms), envelope, encoded_name, run_at, by_id, dedup, notes)

    def encode_plain(
        self, mint: Callable[[int], str], name: str, data: Any, queue: ResultSource
    ) -> tuple[Job, tuple[bytes, bytes]]:
        """A job that is nothing but a name and data, and its entry: the usual add, without an `EncodedJob`."""
        encoded = (self._names.get(name) if name.__class__ is str else None) or self._name(name)
        now_ms = time.time_ns() // 1_000_000
        job_id = mint(now_ms)
        envelope = encode_bare((job_id, self._codec.encode(data, name), now_ms, 0))
        if len(envelope) > self._max_payload:
            raise PayloadTooLarge(job=name, size=len(envelope), limit=self._max_payload)
        return Job(job_id, name, data, 0, now_ms, queue), (envelope, encoded)

    def _name(self, name: str) -> bytes:
        encoded = checked_job_name(name)
        if len(self._names) < 1000:  # names are few; a caller who makes them up must not fill our memory
            self._names[name] = encoded
        return encoded

    def encode_plain_bulk(
        self, mint: IdMint, jobs: Sequence[Mapping[str, Any]], queue: ResultSource
    ) -> tuple[list[Job], list[tuple[bytes, bytes]]] | None:
        """Jobs that are nothing but a name and data, without an `EncodedJob` for each: a third of the cost. None when one is
        more than that, or is wrong: `encode_bulk_entry` then says which and why."""
        now_ms = time.time_ns() // 1_000_000
        names: dict[str, bytes] = {}
        made: list[Job] = []
        entries: list[tuple[bytes, bytes]] = []
        encode, limit = self._codec.encode, self._max_payload
        try:
            for job, job_id in zip(jobs, mint.row(len(jobs), now_ms), strict=True):
                if len(job) != 2:
                    return None
                name, data = job["name"], job["data"]
                encoded = names.get(name)
                if encoded is None:
                    encoded = names[name] = checked_job_name(name)
                envelope = encode_bare((job_id, encode(data, name), now_ms, 0))
                if len(envelope) > limit:
                    return None
                entries.append((envelope, encoded))
                made.append(Job(job_id, name, data, 0, now_ms, queue))
        except (KeyError, TypeError, RelevoError):
            return None
        return made, entries

    def encode_frames(
        self, mint: IdMint, jobs: Sequence[Mapping[str, Any]], queue: ResultSource, most: int
    ) -> tuple[list[Job], list[tuple[bytes, bytes]]]:
        """Jobs that share entries, `most` in each. A frame has room for envelopes and names only: whatever needs a script or a
        key of its own is refused."""
        if positive("frame", most) > MOST_JOBS:
            raise BadArgument(argument="frame", value=most, reason="too many", remedy=f"Pass {MOST_JOBS} or less.")
        plain = self.encode_plain_bulk(mint, jobs, queue)
        if plain is None:
            each_encoded = [self.encode_bulk_entry(mint, at, job) for at, job in enumerate(jobs)]
            for at, encoded in enumerate(each_encoded):
                if not encoded.plain:
                    remedy = "Leave its delay, job_id, lane and dedup out, or add it without `frame`."
                    raise BadArgument(
                        argument=f"jobs[{at}]", value=dict(jobs[at]), reason="no job for a frame", remedy=remedy
                    )
                encoded.job._queue = queue  # pyright: ignore[reportPrivateUsage]
            plain = [each.job for each in each_encoded], [(each.envelope, each.name) for each in each_encoded]
        made, entries = plain
        return made, framed(entries, most=most, max_bytes=self._max_payload)

    def encode_bulk_entry(self, mint: Callable[[int], str], at: int, job: Mapping[str, Any]) -> EncodedJob:
        """One entry of `add_bulk`; errors say which."""
        if not isinstance(job, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType(argument=f"jobs[{at}]", value=job, expected="dict")
        known_names(f"jobs[{at}]", dict(job), job, _BULK_KEYS)
        for needed in ("name", "data"):
            if needed not in job:
                remedy = f"Add {needed!r} to it."
                raise BadArgument(argument=f"jobs[{at}]", value=dict(job), reason=f"no {needed!r}", remedy=remedy)
        if job.get("repeat") is not None or job.get("missed_fires") is not None:
            raise NotSupportedError(f"jobs[{at}]: schedules are made one by one, with `upsert_repeatable_job`.")
        options = {key: value for key, value in job.items() if key in OPTION_NAMES}
        return self.encode(mint, job["name"], job["data"], AddOptions(**options))


def _noted(lane: str | None, dedup: Dedup | None) -> Notes | None:
    held = dedup.key if dedup is not None and dedup.kind == "drop" else None  # the other kinds end with their time
    lane = None if lane is None else checked_lane(lane)
    return None if lane is None and held is None else Notes(lane, held)


def _debounced(dedup: Dedup, run_at: int | None, lane: str | None, by_id: bool, now_ms: int) -> int:
    if run_at is not None or lane is not None or by_id:
        remedy = "Leave delay, lane and job_id out: a debounced job waits by itself and is replaced by the next one."
        raise BadArgument(argument="dedup", value=dedup, reason="it cannot be combined", remedy=remedy)
    return now_ms + dedup.hold_ms
