"""Writes a queue's events: packed, to travel with what a worker settles."""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from relevo.broker.resp import head
from relevo.wire.envelope import Envelope
from relevo.wire.events import MAX_EVENTS
from relevo.wire.keys import QueueKeys


class Run(Protocol):
    """What an event tells of a run."""

    @property
    def envelope(self) -> Envelope: ...

    @property
    def name(self) -> str: ...


class RunEvent(msgspec.Struct, eq=False, gc=False):
    """That a run began, or that it came to its good end: what a busy worker says most. Noted in the slot, packed with the
    flush that carries it."""

    delivery: Run
    at_ns: int
    took_us: int = -1
    """Below 0: it has begun."""


class EventLog:
    """Packs events. Hand-made RESP: two events a job are the larger half of what a worker writes, and formatting them whole
    is ten times cheaper than packing argument by argument. What many events share is kept ready: all that goes before the
    job's id, and the name and the attempt that follow the time. Field order and bytes are those of `wire.events`."""

    def __init__(self, keys: QueueKeys, *, enabled: bool = True, max_len: int = MAX_EVENTS) -> None:
        self.enabled = enabled
        self.cap: int = max_len if enabled else 0
        """For scripts that tell of something themselves; 0 for not at all."""
        self._keys = keys
        self._max_len = max_len
        self._frames: dict[tuple[str, str, int, int, bool], tuple[str, str]] = {}

    def packed(self, run_events: list[RunEvent]) -> bytes:
        """An XADD for each, in order. The first also trims the stream: Redis trims whole blocks of it anyway, and to look for
        one with every event would be a fifth of what they cost it."""
        parts: list[str] = []
        name, attempt, last_ms, stamp = "", -1, -1, ""
        began = ended = ("", "")
        for run_event in run_events:
            delivery, took = run_event.delivery, run_event.took_us
            envelope = delivery.envelope
            job_id, ms = envelope.id, run_event.at_ns // 1_000_000
            if ms != last_ms:  # dozens of events share a millisecond, and most of them a name and an attempt
                last_ms, stamp = ms, _stamp(ms)
            if delivery.name is not name or envelope.attempt != attempt:
                name, attempt = delivery.name, envelope.attempt
                began = self._frame("active", name, attempt + 1, 0, False)
                ended = self._frame("completed", name, attempt + 1, 1, False)
            opening, tail = began if took < 0 else ended
            if not parts:
                opening, _ = self._frame("active" if took < 0 else "completed", name, attempt + 1, took >= 0, True)
            size = len(job_id) if job_id.isascii() else len(job_id.encode())
            if took < 0:
                parts.append(f"{opening}${size}\r\n{job_id}{stamp}{tail}")
            else:
                duration = _SHORT[took] if took < len(_SHORT) else _duration(took)
                parts.append(f"{opening}${size}\r\n{job_id}{stamp}{tail}{duration}")
        return "".join(parts).encode()

    def failed(self, job_id: str, name: str, attempt: int, reason: str, duration_us: int) -> bytes:
        took = _SHORT[duration_us] if duration_us < len(_SHORT) else _duration(duration_us)
        if not (reason.isascii() and job_id.isascii()):
            return self.pack("failed", job_id, name, attempt, f"{_field('reason', reason)}{took}", 2)
        # In one piece: a storm of retries says this as often as others say "completed".
        opening, tail = self._frame("failed", name, attempt, 2, True)
        said = f"$6\r\nreason\r\n${len(reason)}\r\n{reason}\r\n"
        now = _stamp(time.time_ns() // 1_000_000)
        return f"{opening}${len(job_id)}\r\n{job_id}{now}{tail}{said}{took}".encode("utf-8", "surrogateescape")

    def retry_scheduled(self, job_id: str, name: str, attempt: int, backoff_ms: int) -> bytes:
        extras = f"$10\r\nbackoff_ms\r\n{_bulk(str(backoff_ms))}"
        return self.pack("retry-scheduled", job_id, name, attempt, extras, 1)

    def dead(self, job_id: str, name: str, attempt: int, reason: str) -> bytes:
        return self.pack("dlq", job_id, name, attempt, _field("reason", reason), 1)

    def stalled(self, job_id: str, name: str, count: int) -> bytes:
        return self.pack("stalled", job_id, name, count, _field("prev", "active"), 1)

    def drained(self) -> bytes:
        return self.pack("drained", "", "", -1)

    def event(self, event: str, job_id: str = "", name: str = "", **extras: int | str) -> bytes:
        """Any other event."""
        packed = "".join(_field(key, str(value)) for key, value in extras.items())
        return self.pack(event, job_id, name, -1, packed, len(extras))

    def pack(self, event: str, job_id: str, name: str, attempt: int, extras: str = "", count: int = 0) -> bytes:
        """One XADD; `count` is the number of fields in `extras`, an attempt below 0 is none."""
        opening, tail = self._frame(event, name, attempt, count, True)
        size = f"${len(job_id)}\r\n" if job_id.isascii() else f"${len(job_id.encode(errors='surrogateescape'))}\r\n"
        return f"{opening}{size}{job_id}{_stamp(time.time_ns() // 1_000_000)}{tail}{extras}".encode(
            "utf-8", "surrogateescape"
        )

    def _frame(self, event: str, name: str, attempt: int, count: int, trims: bool) -> tuple[str, str]:
        """What stands around the id and the time in every such event."""
        known = self._frames.get((event, name, attempt, count, trims))
        if known is not None:
            return known
        cap = ("MAXLEN", "~", self._max_len) if trims else ()
        arguments = 3 + len(cap) + 2 * (3 + bool(name) + (attempt >= 0) + count)
        opening = head(arguments, "XADD", self._keys.events, *cap, "*", "e", event, "id").decode()
        tail = _field("n", name) if name else ""
        if attempt >= 0:
            tail += f"$7\r\nattempt\r\n{_bulk(str(attempt))}"
        if len(self._frames) > 1000:  # names are few; a producer who makes them up must not fill our memory
            self._frames.clear()
        frame = self._frames[event, name, attempt, count, trims] = opening, tail
        return frame


def _stamp(ms: int) -> str:
    return f"\r\n$2\r\nts\r\n{_bulk(str(ms))}"


def _duration(us: int) -> str:
    return f"$11\r\nduration_us\r\n{_bulk(str(us))}"


def _bulk(text: str) -> str:
    size = len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))
    return f"${size}\r\n{text}\r\n"


def _field(key: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate in an exception's text must not cost the event
        text = text.encode(errors="replace").decode()
    return f"{_bulk(key)}{_bulk(text)}"


_SHORT = [_duration(us) for us in range(1000)]  # jobs that take less than a millisecond come by the hundred thousand
