"""Checks a job and encodes it, ready to be sent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from relevo.arguments import instance, known_names, positive
from relevo.engine.job.add_options import OPTION_NAMES, PLAIN, AddOptions
from relevo.engine.job.dedup import Dedup
from relevo.engine.job.job import Job, ResultSource
from relevo.engine.producing.pending_add import Entry
from relevo.errors import BadArgument, NotSupportedError, PayloadTooLarge, RelevoError, WrongType
from relevo.wire.backoff import retry_override
from relevo.wire.envelope import encode_bare
from relevo.wire.envelope_encoder import EnvelopeEncoder, checked_job_name
from relevo.wire.frame import MOST_JOBS, framed
from relevo.wire.limits import QueueLimits
from relevo.wire.notes import Notes, checked_lane
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


class JobEncoder(EnvelopeEncoder):
    """Encodes the jobs of one queue, by its limits and its codec. They can wait for their results at `results`."""

    def __init__(self, codec: Codec, limits: QueueLimits, results: ResultSource | None = None) -> None:
        super().__init__(limits)
        self._codec = codec
        self._results = results

    def encode(self, name: str, data: Any, options: AddOptions = PLAIN) -> EncodedJob:
        """Everything is checked here, before anything is sent."""
        encoded_name, now_ms = self.name(name), time.time_ns() // 1_000_000
        run_at, lane, dedup = self.run_at(options.delay_ms, options.delay, now_ms), options.lane, options.dedup
        by_id = options.job_id is not None
        payload = self._codec.encode(data, name)
        retry = retry_override(options.attempts, options.backoff)
        job_id, envelope = self.envelope(name, payload, now_ms, job_id=options.job_id, retry=retry)
        notes = None
        if lane is not None or dedup is not None:
            notes = _noted(lane, dedup)
            if dedup is not None and dedup.kind == "debounce":
                run_at = _debounced(dedup, run_at, lane, by_id, now_ms)
        job = Job(job_id, name, data, 0, now_ms, self._results)
        return EncodedJob(job, envelope, encoded_name, run_at, by_id, dedup, notes)

    # The two below are `encode` for the usual job, which is nothing but a name and data: without an `EncodedJob`, and with
    # the envelope made in place, since at a million adds a call more is felt.

    def encode_plain(self, name: str, data: Any) -> tuple[Job, Entry]:
        """One such job, and its entry."""
        encoded = (self._names.get(name) if name.__class__ is str else None) or self.name(name)
        now_ms = time.time_ns() // 1_000_000
        job_id = self.mint(now_ms)
        envelope = encode_bare((job_id, self._codec.encode(data, name), now_ms, 0))
        if len(envelope) > self._max_bytes:
            raise PayloadTooLarge(job=name, size=len(envelope), limit=self._max_bytes)
        return Job(job_id, name, data, 0, now_ms, self._results), (envelope, encoded)

    def encode_plain_bulk(self, jobs: Sequence[Mapping[str, Any]]) -> tuple[list[Job], list[Entry]] | None:
        """Many such jobs. None when one is more than that, or is wrong: `encode_bulk` then says which and why."""
        now_ms = time.time_ns() // 1_000_000
        names: dict[str, bytes] = {}
        made: list[Job] = []
        entries: list[Entry] = []
        encode, limit, results = self._codec.encode, self._max_bytes, self._results
        try:
            for job, job_id in zip(jobs, self.mint.row(len(jobs), now_ms), strict=True):
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
                made.append(Job(job_id, name, data, 0, now_ms, results))
        except (KeyError, TypeError, RelevoError):
            return None
        return made, entries

    def encode_frames(self, jobs: Sequence[Mapping[str, Any]], most: int) -> tuple[list[Job], list[Entry]]:
        """Jobs that share entries, `most` in each. A frame has room for envelopes and names only: whatever needs a script or a
        key of its own is refused."""
        if positive("frame", most) > MOST_JOBS:
            raise BadArgument(argument="frame", value=most, reason="too many", remedy=f"Pass {MOST_JOBS} or less.")
        plain = self.encode_plain_bulk(jobs)
        if plain is None:
            each_encoded = self.encode_bulk(jobs)
            for at, encoded in enumerate(each_encoded):
                if not encoded.plain:
                    remedy = "Leave its delay, job_id, lane and dedup out, or add it without `frame`."
                    raise BadArgument(
                        argument=f"jobs[{at}]", value=dict(jobs[at]), reason="no job for a frame", remedy=remedy
                    )
            plain = [each.job for each in each_encoded], [(each.envelope, each.name) for each in each_encoded]
        made, entries = plain
        return made, framed(entries, most=most, max_bytes=self._max_bytes)

    def encode_bulk(self, jobs: Sequence[Mapping[str, Any]]) -> list[EncodedJob]:
        """Jobs of any kind, each a dict of `Queue.add`'s arguments; errors say which one is wrong."""
        return [self._encode_one_of(at, job) for at, job in enumerate(jobs)]

    def _encode_one_of(self, at: int, job: Mapping[str, Any]) -> EncodedJob:
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
        return self.encode(job["name"], job["data"], AddOptions(**options))


def _noted(lane: str | None, dedup: Dedup | None) -> Notes | None:
    if dedup is not None:
        instance("dedup", dedup, Dedup, remedy="Pass Dedup.drop(key), Dedup.throttle(...) or Dedup.debounce(...).")
    held = dedup.key if dedup is not None and dedup.kind == "drop" else None  # the other kinds end with their time
    lane = None if lane is None else checked_lane(lane)
    return None if lane is None and held is None else Notes(lane, held)


def _debounced(dedup: Dedup, run_at: int | None, lane: str | None, by_id: bool, now_ms: int) -> int:
    if run_at is not None or lane is not None or by_id:
        remedy = "Leave delay, lane and job_id out: a debounced job waits by itself and is replaced by the next one."
        raise BadArgument(argument="dedup", value=dedup, reason="it cannot be combined", remedy=remedy)
    return now_ms + dedup.hold_ms
