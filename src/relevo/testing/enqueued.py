"""What is in a queue, and assertions about it that say how the jobs there differ from the one that was wanted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, cast

from relevo.broker.resp import pairs
from relevo.engine.job.job import Job
from relevo.engine.queue import Queue
from relevo.engine.tasks import Call, Task
from relevo.testing.inside import Inside, inside
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.frame import decode_frame, is_frame
from relevo.wire.notes import Notes
from relevo.wire.payload import decode_payload

_SHOWN = 20

ANYTHING: Any = ...


class Enqueued(NamedTuple):
    """One job in the queue. `due_in` is None for a job that waits or runs, else how far away its time is."""

    job: Job
    due_in: timedelta | None
    lane: str | None


async def enqueued(queue: Queue) -> list[Enqueued]:
    """Every job that is waiting, running, in a lane or delayed, in about the order in which they will run."""
    async with inside(queue) as within:
        return await _all(within, queue)


async def assert_enqueued(
    queue: Queue,
    name: str | Task[..., Any] | Call | None = None,
    data: Any = ANYTHING,
    *,
    count: int | None = None,
    delayed: bool | None = None,
    lane: str | None = None,
) -> list[Enqueued]:
    """Asserts that the queue holds a job like this (exactly `count` of them, when given), and returns those that match.

    A dict as `data` matches when all its entries are there, at every depth; anything else has to be equal. `delayed` tells
    whether the job has to wait for its time. A call of a task is looked for as it was enqueued: `send.call("ada")`.
    """
    if isinstance(name, Call) and data is ANYTHING:
        data = name.data
    wanted = _Wanted(name.name if isinstance(name, Task | Call) else name, data, delayed, lane)
    there = await enqueued(queue)
    matching = [each for each in there if not wanted.differences(each)]
    if len(matching) == count or (count is None and matching):
        return matching
    if count is None:
        said = f"no job {wanted} is in queue {queue.name!r}"
    else:
        said = f"{len(matching)} {_jobs(len(matching))} {wanted} in queue {queue.name!r}, not {count}"
    raise AssertionError(f"{said}; {_listing(wanted, there)}")


async def assert_not_enqueued(
    queue: Queue,
    name: str | Task[..., Any] | Call | None = None,
    data: Any = ANYTHING,
    *,
    delayed: bool | None = None,
    lane: str | None = None,
) -> None:
    """Asserts that the queue holds no job like this; see `assert_enqueued`."""
    await assert_enqueued(queue, name, data, count=0, delayed=delayed, lane=lane)


class _Wanted(NamedTuple):
    name: str | None
    data: Any
    delayed: bool | None
    lane: str | None

    def __str__(self) -> str:
        parts = [] if self.name is None else [repr(self.name)]
        if self.data is not ANYTHING:
            parts.append(f"with data {self.data!r}")
        if self.delayed is not None:
            parts.append("that is delayed" if self.delayed else "that is not delayed")
        if self.lane is not None:
            parts.append(f"of lane {self.lane!r}")
        return " ".join(parts) or "at all"

    def differences(self, there: Enqueued) -> list[str]:
        found: list[str] = []
        if self.name is not None and there.job.name != self.name:
            found.append(f"its name is {there.job.name!r}")
        if self.data is not ANYTHING:
            found += differences(self.data, there.job.data)
        if self.delayed is not None and self.delayed != (there.due_in is not None):
            found.append("it is not delayed" if self.delayed else "it is delayed")
        if self.lane is not None and there.lane != self.lane:
            found.append(f"its lane is {there.lane!r}")
        return found


def differences(wanted: Any, there: Any, place: str = "data") -> list[str]:
    """In what `there` is not as `wanted`, one sentence for each difference.

    >>> differences({"to": "ada", "cc": 1}, {"to": "bob", "cc": 1, "id": 7})
    ["data['to'] is 'bob'"]
    """
    if isinstance(wanted, Mapping) and isinstance(there, Mapping):
        entries, found = cast("Mapping[Any, Any]", there), list[str]()
        for key, value in cast("Mapping[Any, Any]", wanted).items():
            if key in entries:
                found += differences(value, entries[key], f"{place}[{key!r}]")
            else:
                found.append(f"{place} has no {key!r}")
        return found
    if isinstance(wanted, tuple):  # they travel as lists
        wanted = list(cast("tuple[Any, ...]", wanted))
    return [] if wanted == there else [f"{place} is {there!r}"]


def _listing(wanted: _Wanted, there: list[Enqueued]) -> str:
    if not there:
        return "the queue is empty"
    # The nearest first: what is almost right is what the reader looks for.
    nearest = sorted(there, key=lambda each: len(wanted.differences(each)))
    lines = [f"it holds {len(there)} {_jobs(len(there))}:"]
    for each in nearest[:_SHOWN]:
        when = "" if each.due_in is None else f", due in {each.due_in}"
        why = "; ".join(wanted.differences(each)) or "this one matches"
        lines.append(f"  {each.job.name!r} {each.job.data!r}{when}: {why}")
    if len(nearest) > _SHOWN:
        lines.append(f"  and {len(nearest) - _SHOWN} more")
    return "\n".join(lines)


def _jobs(count: int) -> str:
    return "job" if count == 1 else "jobs"


async def _all(within: Inside, queue: Queue) -> list[Enqueued]:
    keys, now_ms = within.keys, await within.time_ms()
    notes = {
        job_id.decode(errors="replace"): Notes.decode(noted)
        for job_id, noted in pairs(await within.link.call("HGETALL", keys.notes)).items()
    }
    lanes = sorted({noted.lane for noted in notes.values() if noted.lane is not None})
    entries, delayed, *waiting = await within.together(
        ("XRANGE", keys.stream, "-", "+"),
        ("ZRANGE", keys.delayed, 0, -1, "WITHSCORES"),
        *(("LRANGE", keys.lane(lane), 0, -1) for lane in lanes),
    )
    found: list[Enqueued] = []

    def keep(name: str, envelope: bytes, due_in: timedelta | None = None) -> None:
        keep_read(name, Envelope.decode(envelope), due_in)

    def keep_read(name: str, read: Envelope, due_in: timedelta | None = None) -> None:
        job = Job(read.id, name, decode_payload(read.payload), read.attempt, read.created_at_ms, queue)
        found.append(Enqueued(job, due_in, notes.get(read.id, Notes()).lane))

    for _, flat in entries:
        fields = pairs(flat)
        if is_frame(fields[b"d"]):
            for framed in decode_frame(fields[b"d"]):
                keep_read(framed.name, framed.envelope)
        else:
            keep(fields.get(b"n", b"").decode(), fields[b"d"])
    for line in waiting:
        for member in line:
            keep(*DelayedMember.decode(member))
    for member, score in zip(delayed[::2], delayed[1::2], strict=True):
        wait_ms = int(float(score)) - now_ms
        keep(*DelayedMember.decode(member), timedelta(milliseconds=wait_ms) if wait_ms > 0 else None)
    return found
