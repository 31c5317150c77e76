"""The hand-packed events are, byte for byte, what the wire and the packer make of the same fields."""

import pytest

from relevo.broker.resp import Argument, command
from relevo.engine.events import event_log
from relevo.engine.events.event_log import EventLog, RunEvent
from relevo.engine.settling.delivery import Delivery
from relevo.wire.envelope import Envelope
from relevo.wire.events import EventFields
from relevo.wire.keys import QueueKeys

KEYS = QueueKeys("größe")
NOW_NS = 1_700_000_000_123_999_999
TEXTS = ["", "a", "send", "größe", "\U0001f98a", "a\r\nb", "$5", "\x00", "x" * 3000]


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        @staticmethod
        def time_ns() -> int:
            return NOW_NS

    monkeypatch.setattr(event_log, "time", Clock)


def by_the_wire(
    event: str,
    job_id: str,
    name: str,
    extras: dict[str, int | str],
    cap: int | None = 100_000,
    ms: int = NOW_NS // 10**6,
) -> bytes:
    fields = EventFields(event, job_id, ms, name, extras).encode()
    trim: tuple[Argument, ...] = () if cap is None else ("MAXLEN", "~", cap)
    return command("XADD", KEYS.events, *trim, "*", *fields)


def began(job_id: str, name: str, attempt: int = 1, at_ns: int = NOW_NS) -> RunEvent:
    return RunEvent(Delivery(b"1-1", Envelope(job_id, b"", 0, attempt - 1), name, 0, 0.0), at_ns)


def ended(job_id: str, name: str, took_us: int, attempt: int = 1) -> RunEvent:
    telling = began(job_id, name, attempt)
    telling.took_us = took_us
    return telling


@pytest.mark.parametrize("job_id", ["01J9", *TEXTS])
@pytest.mark.parametrize("name", TEXTS)
def test_ids_and_names_of_any_text_are_packed_as_the_wire_says(job_id: str, name: str) -> None:
    log = EventLog(KEYS)
    for _ in range(2):  # the second time from the log's own memory
        assert log.packed([began(job_id, name)]) == by_the_wire("active", job_id, name, {"attempt": 1})
        completed = by_the_wire("completed", job_id, name, {"attempt": 12, "duration_us": 0})
        assert log.packed([ended(job_id, name, 0, attempt=12)]) == completed


def test_a_row_of_events_is_packed_in_order_and_trims_the_stream_once() -> None:
    row = [began("a", "n"), ended("a", "n", 7), began("b", "", at_ns=2 * 10**15), ended("a", "n", 123_456)]
    assert EventLog(KEYS).packed(row) == b"".join(
        (
            by_the_wire("active", "a", "n", {"attempt": 1}),
            by_the_wire("completed", "a", "n", {"attempt": 1, "duration_us": 7}, cap=None),
            by_the_wire("active", "b", "", {"attempt": 1}, cap=None, ms=2 * 10**9),
            by_the_wire("completed", "a", "n", {"attempt": 1, "duration_us": 123_456}, cap=None),
        )
    )


@pytest.mark.parametrize("reason", [*TEXTS, "\ud800 alone"])
def test_reasons_of_any_text_are_packed_as_the_wire_says(reason: str) -> None:
    log = EventLog(KEYS)
    failed = by_the_wire("failed", "a", "n", {"attempt": 1, "reason": reason, "duration_us": 10**12})
    assert log.failed("a", "n", 1, reason, 10**12) == failed
    assert log.dead("a", "n", 2, reason) == by_the_wire("dlq", "a", "n", {"attempt": 2, "reason": reason})


def test_every_event_is_packed_as_the_wire_says() -> None:
    log = EventLog(KEYS, max_len=7)
    assert log.drained() == by_the_wire("drained", "", "", {}, cap=7)
    assert log.stalled("a", "", 2) == by_the_wire("stalled", "a", "", {"attempt": 2, "prev": "active"}, cap=7)
    assert log.event("delayed", "a", "n", delay_ms=5, colour="röt") == by_the_wire(
        "delayed", "a", "n", {"delay_ms": 5, "colour": "röt"}, cap=7
    )
    assert log.retry_scheduled("a", "n", 2, 99) == by_the_wire(
        "retry-scheduled", "a", "n", {"attempt": 2, "backoff_ms": 99}, cap=7
    )


def test_names_made_up_for_every_job_do_not_fill_the_memory() -> None:
    log = EventLog(KEYS)
    for number in range(3000):
        name = f"name-{number}"
        assert log.packed([began("a", name)]) == by_the_wire("active", "a", name, {"attempt": 1})
    assert len(log._frames) <= 1001  # pyright: ignore[reportPrivateUsage]
