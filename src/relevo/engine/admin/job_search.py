"""The search for one job by its id: through the stream, the delayed set, its lane and the dead letters, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, pairs
from relevo.broker.scripts import script
from relevo.engine.admin.snapshot import HANDED_BACK
from relevo.engine.job.job import Job, ResultSource
from relevo.errors import Undecodable
from relevo.wire.dead import DeadLetterFields
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.failure import Failure
from relevo.wire.ids import minted_ms
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import decode_payload

FIND_JOB = script("find_job", __name__)

_STEP = 500  # entries a script looks at in one go: more would hold up the server for other clients
_SKEW_MS = 1000

_Place = tuple[bytes, Envelope, str]
"""Where a job stands, what it is, and its name."""


@dataclass(frozen=True)
class FoundJob:
    """Where a job is. `state` is "unknown" when it was found nowhere, and then `complete` tells whether all was searched."""

    state: str
    job: Job | None
    complete: bool
    entries: list[bytes] = field(default_factory=list[bytes])
    members: list[bytes] = field(default_factory=list[bytes])
    letters: list[bytes] = field(default_factory=list[bytes])
    laned: list[bytes] = field(default_factory=list[bytes])
    result: bool = False
    attempts_made: int | None = None
    """Runs that were begun, the one under way and the one that killed it included; None for a job that is not there."""
    failure: Failure | None = None
    """How its last run failed: of a job that waits for another run, runs again, or is dead; of a completed one, why its
    result was dropped."""
    run_at_ms: int | None = None
    """When a delayed job is due."""
    refused_s: float | None = None
    """For how long workers that have no task of its name have given it back; None where none has."""


class JobSearch:
    """One search for one id, step by step."""

    def __init__(self, link: Link, keys: QueueKeys, group: str, job_id: str, most: int) -> None:
        self._link = link
        self._keys = keys
        self._group = group
        self._id = job_id
        self._most = most
        self.steps: int = 0
        self._active: list[_Place] = []
        self._waiting: list[_Place] = []
        self._delayed: list[_Place] = []
        self._dead: list[_Place] = []
        self._letters: dict[bytes, DeadLetterFields] = {}
        self._failure: bytes | None = None
        self._laned: list[_Place] = []
        self._due: dict[bytes, int] = {}
        self._result = False
        self._complete = True

    @property
    def nothing(self) -> bool:
        return not (self._active or self._waiting or self._delayed or self._dead or self._laned or self._result)

    async def run(self) -> None:
        keys, born = self._keys, minted_ms(self._id)
        # Nothing is written before it is born, give or take the clocks: look from there first, at what is older last.
        parts = [(b"-", b"+")]
        if born is not None and born > _SKEW_MS:
            since = b"%d-0" % (born - _SKEW_MS)
            parts = [(since, b"+"), (b"-", b"(" + since)]
        delayed, lane, looked = b"0", b"0", 0
        for first, last in parts:
            stream = dead = first
            while stream or dead or delayed or lane:
                if looked >= self._most:
                    self._complete = False
                    return
                step = min(_STEP, self._most - looked)
                looked += step
                arguments = (self._group, self._id, step, stream, last, delayed, dead, last, lane, keys.tag)
                stream, delayed, dead, lane = await self._step([keys.stream, keys.delayed, keys.dead], arguments)

    async def _step(self, keys: list[bytes], arguments: tuple[Argument, ...]) -> tuple[bytes, bytes, bytes, bytes]:
        self.steps += 1
        own = [self._keys.result(self._id), self._keys.failure(self._id)]
        reply: Reply = await self._link.run(FIND_JOB, [*keys, *own], *arguments)
        entries, stream, members, delayed, letters, dead, result, laned, lane, self._failure = reply
        for entry_id, fields, consumer in entries:
            held = consumer not in (b"", HANDED_BACK)
            self._keep(self._active if held else self._waiting, entry_id, *read_entry(fields))
        for member, score in members:
            self._due[member] = int(float(score))
            self._keep(self._delayed, member, *read_member(member))
        for member in laned:
            self._keep(self._laned, member, *read_member(member))
        for letter_id, fields in letters:
            self._letters[letter_id] = DeadLetterFields.decode(pairs(fields))
            self._keep(self._dead, letter_id, *read_entry(fields))
        self._result = result == 1
        return stream, delayed, dead, lane

    def _keep(self, places: list[_Place], place: bytes, envelope: Envelope | None, name: str) -> None:
        if envelope is not None and envelope.id == self._id:
            places.append((place, envelope, name))

    def found(self, queue: ResultSource | None) -> FoundJob:
        by_state = {
            "active": self._active,
            "delayed": self._delayed,
            "waiting": [*self._waiting, *self._laned],
            "failed": self._dead,
        }
        kept = Failure.last(self._failure)
        dropped = kept if kept is not None and kept.result_dropped else None
        ended = "completed" if self._result or dropped else "unknown"
        state = next((each for each, places in by_state.items() if places), ended)
        job = attempts = failure = None
        if state in by_state:
            place, envelope, name = by_state[state][0]
            attempts = envelope.attempt + (state == "active")
            # One after more runs than the job has had is not of this life of it: it was replayed, or its id was used anew.
            current = kept is not None and kept.attempt <= envelope.attempt and not kept.result_dropped
            failure = kept if current else None
            if state == "failed":
                letter = self._letters[place]
                attempts = letter.attempts_made
                failure = letter.failure(int(place.partition(b"-")[0])) or failure
            job = job_of(envelope, name, queue, attempts if state == "failed" else None)
        elif state == "completed":
            job = Job(self._id, "", None, 0, minted_ms(self._id) or 0, queue)
            if dropped is not None and not self._result:
                attempts, failure = dropped.attempt, dropped
        return FoundJob(
            state,
            job,
            self._complete,
            [place[0] for place in (*self._active, *self._waiting)],
            [place[0] for place in self._delayed],
            [place[0] for place in self._dead],
            [place[0] for place in self._laned],
            result=self._result,
            attempts_made=attempts,
            failure=failure,
            run_at_ms=self._due[self._delayed[0][0]] if state == "delayed" else None,
        )


# --- from bytes to jobs ------------------------------------------------------------------------------------------------


def read_entry(flat: list[bytes]) -> tuple[Envelope | None, str]:
    fields = pairs(flat)
    return _envelope(fields.get(b"d", b"")), fields.get(b"n", b"").decode(errors="replace")


def read_member(member: bytes) -> tuple[Envelope | None, str]:
    try:
        name, envelope = DelayedMember.decode(member)
    except Undecodable:
        return None, ""
    return _envelope(envelope), name


def _envelope(data: bytes) -> Envelope | None:
    try:
        return Envelope.decode(data)
    except Undecodable:
        return None


def entry_job(flat: list[bytes], queue: ResultSource | None, *, dead: bool = False) -> Job | None:
    envelope, name = read_entry(flat)
    if envelope is None:
        return None
    return job_of(envelope, name, queue, DeadLetterFields.decode(pairs(flat)).attempts_made if dead else None)


def member_job(member: bytes, queue: ResultSource | None) -> Job | None:
    envelope, name = read_member(member)
    return None if envelope is None else job_of(envelope, name, queue)


def job_of(envelope: Envelope, name: str, queue: ResultSource | None, attempts: int | None = None) -> Job | None:
    """The job of an envelope; a dead one is given the runs it has had, which its envelope counts one short."""
    try:
        data = decode_payload(envelope.payload)
    except Undecodable:
        return None
    return Job(
        envelope.id, name, data, envelope.attempt if attempts is None else attempts, envelope.created_at_ms, queue
    )
