"""A page read all at once is what hiredis reads, or it is left to hiredis."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo.contract.events import EventName
from relevo.pipeline.connector.event_columns import EventColumns, MixedColumns
from relevo.pipeline.connector.event_rows import EventRows
from relevo.pipeline.connector.layout import Layout
from relevo.pipeline.connector.page import Page, joined
from relevo.wire.events import EventFields
from relevo.work.store.outbox import WorkEvent
from tests.spark.connector.filled import arrow_schema
from tests.support.stream_entries import entry_of

STREAM = "{chasqui:mail}:events"
Entries = list[tuple[bytes, list[bytes]]]


def answer(entries: Entries) -> bytes:
    """As a server writes it."""
    parts = [b"*%d\r\n" % len(entries)]
    for entry_id, fields in entries:
        parts.append(b"*2\r\n%b*%d\r\n" % (_bulk(entry_id), len(fields)))
        parts += map(_bulk, fields)
    return b"".join(parts)


def _bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def entries_of(layout: Layout) -> Entries:
    found: Entries = [(layout.text(int(at)), []) for at in layout.ids]
    for row, name, value in zip(layout.row_of, layout.names, layout.values, strict=True):
        found[row][1].extend((layout.text(int(name)), layout.text(int(value))))
    return found


def event(kind: str, number: int = 1, **extras: int | str) -> list[bytes]:
    return EventFields(kind, f"job-{number}", 1_700_000_000_000, "mail", extras).encode()


def lives(count: int) -> Entries:
    shapes: list[list[bytes]] = [
        event("active", attempt=1),
        event("completed", attempt=1, duration_us=1500),
        event("failed", attempt=10, reason="line one\nline two", duration_us=7),
        event("retry-scheduled", attempt=2, backoff_ms=100),
        EventFields("drained", "", 1_700_000_000_000, "", {}).encode(),
    ]
    return [(b"%d-%d" % (1_700_000_000_000 + at, at % 11), shapes[at % 5]) for at in range(count)]


def messages(count: int) -> Entries:
    """As the relay of a work queue writes them."""
    told: list[tuple[EventName, dict[str, int | str]]] = [
        ("published", {}),
        ("routed", {"rule": "large", "to": "slow", "hop": 1}),
        ("claimed", {"attempt": 1, "wait_ms": 5}),
        ("failed", {"attempt": 1, "duration_us": 900, "reason": "no route", "error_type": "OSError"}),
        ("review_decided", {"review": "r1", "decision": "approve", "reason": ""}),
    ]
    made = [
        WorkEvent(name, 7, f"01J9-{at}", 1_700_000_000_000 + at, "invoice", f"order-{at}", extras)
        for at, (name, extras) in ((at, told[at % 5]) for at in range(count))
    ]
    return [(b"%d-0" % each.ts, entry_of(each, "invoices", f"{at}-0").encode()) for at, each in enumerate(made)]


WORK = "{chasqui:work.acme.billing.invoices}:events"


def batch_of(entries: Entries, skipped: int = 0, stream: str = STREAM) -> Any:
    layout = Page(answer(entries)).layout
    return None if layout is None else EventColumns(stream, arrow_schema("events"), "eu-1").batch(layout, skipped)


def by_entries(entries: Entries, stream: str = STREAM) -> list[dict[str, Any]]:
    rows = EventRows(stream, arrow_schema("events"), source="eu-1")
    return rows.batch([[entry, fields] for entry, fields in entries]).to_pylist()


def test_events_as_the_engine_writes_them_are_read_all_at_once() -> None:
    batch = batch_of(lives(500))
    assert batch is not None
    assert batch.to_pylist() == by_entries(lives(500))


def test_events_of_work_queues_are_read_all_at_once() -> None:
    batch = batch_of(messages(50), stream=WORK)
    assert batch is not None
    rows = batch.to_pylist()
    assert rows == by_entries(messages(50), WORK)
    assert [rows[1][name] for name in ("queue", "correlation_id", "seq")] == [
        "work.acme.billing.invoices",
        "order-1",
        "1-0",
    ]
    assert rows[1]["rest"] == [("rule", "large"), ("to", "slow"), ("hop", "1")]
    assert rows[0]["rest"] is None
    assert {row["source"] for row in rows} == {"eu-1"}


def test_pages_of_several_streams_that_are_joined_give_the_rows_of_each() -> None:
    pages = [(WORK, messages(7)), (STREAM, lives(9)), (WORK.replace("invoices", "large"), messages(3))]
    bodies = [Page(answer(entries)).body or b"" for _, entries in pages]
    rows = [len(entries) for _, entries in pages]
    layout = joined(bodies, sum(rows)).layout
    assert layout is not None
    columns = MixedColumns([stream for stream, _ in pages], rows, arrow_schema("events"), "eu-1")
    found = columns.batch(layout, 0)
    assert found is not None
    assert found.to_pylist() == [row for stream, entries in pages for row in by_entries(entries, stream)]


def test_a_page_knows_its_number_and_its_ends_without_being_read_whole() -> None:
    page = Page(memoryview(answer(lives(12))))
    assert (page.rows, str(page.oldest), str(page.newest)) == (12, "1700000000000-0", "1700000000011-0")
    assert page.kept().entries == page.entries


def test_a_queue_that_an_event_names_and_that_is_another_stands_in_the_rest() -> None:
    entries = [*messages(3), (b"1700000000009-0", event("active", queue="elsewhere"))]
    assert batch_of(entries, stream=WORK).to_pylist() == by_entries(entries, WORK)
    assert by_entries(entries, WORK)[-1]["rest"] == [("queue", "elsewhere")]


def test_entries_that_were_read_before_are_left_out() -> None:
    assert batch_of(lives(9), skipped=1).to_pylist() == by_entries(lives(9)[1:])
    assert batch_of(messages(9), skipped=2).to_pylist() == by_entries(messages(9)[2:])


@pytest.mark.parametrize("text", [b"two\r\nlines", b"*2", b"$3\r\nabc", b"", b"\r", b"\n", b"\r\n", b"*1\r\n*2\r\n"])
def test_a_text_that_looks_like_structure_is_no_structure(text: bytes) -> None:
    entries = [*lives(5), (b"1700000000009-0", event("failed", attempt=1, reason=text.decode())), *lives(5)]
    page = Page(answer(entries))
    assert page.entries == [[entry, fields] for entry, fields in entries]
    assert page.layout is None or entries_of(page.layout) == entries


@pytest.mark.parametrize(
    "fields",
    [
        [*event("active", attempt=1, worker="w-7"), b"worker", b"w-8"],
        event("active", attempt="0x10"),
        event("active", attempt="-1"),
        event("active", attempt="9" * 30),
        [b"e", b"act\xff", b"id", b"a", b"ts", b"1"],
        [b"id", b"a", b"ts", b"1"],
        [b"e", b"active", b"e", b"failed", b"id", b"a", b"ts", b"1"],
        [b"e", b"active", b"ix", b"a", b"ts", b"1"],
    ],
    ids=["unknown twice", "hexadecimal", "negative", "huge", "not UTF-8", "incomplete", "twice", "alike"],
)
def test_a_page_with_an_odd_event_is_read_event_by_event(fields: list[bytes]) -> None:
    assert batch_of([*lives(5), (b"1700000000009-0", fields)]) is None


def test_an_answer_without_entries_has_no_layout() -> None:
    page = Page(b"*0\r\n")
    assert (page.layout, page.entries, page.rows) == (None, [], 0)


def test_a_refusal_is_no_page() -> None:
    assert str(Page(b"-WRONGTYPE no stream\r\n").error) == "WRONGTYPE no stream"


_pieces = st.sampled_from([b"\r\n", b"*2", b"$1", b"\r", b"\n", b"$", b"*", b"a", b"-1", b"\xff"])
_texts = st.one_of(st.binary(max_size=6), st.lists(_pieces, max_size=4).map(b"".join))
_fields = st.lists(_texts, min_size=2, max_size=8).filter(lambda texts: len(texts) % 2 == 0)


@given(st.lists(st.tuples(_texts, _fields), min_size=1, max_size=6))
def test_any_page_has_the_layout_that_hiredis_finds_or_none(entries: Entries) -> None:
    layout = Page(answer(entries)).layout
    assert layout is None or entries_of(layout) == entries


@given(st.data(), st.lists(st.tuples(_texts, _fields), min_size=1, max_size=4))
def test_an_answer_cut_short_has_no_layout(data: st.DataObject, entries: Entries) -> None:
    whole = answer(entries)
    assert Page(whole[: data.draw(st.integers(1, len(whole) - 1))]).layout is None


_names = st.sampled_from(
    [b"e", b"id", b"ts", b"n", b"attempt", b"reason", b"prev", b"delay_ms", b"worker", b"ex", b"queue", b"seq"]
)
_numbers = st.integers(-(2**65), 2**65).map(lambda number: b"%d" % number)
_values = st.one_of(
    st.text(max_size=6).map(str.encode), _numbers, st.sampled_from([b"0x1", b"\xff", b"+1", b" 1", b"mail"])
)
_odd = st.lists(st.tuples(_names, _values), max_size=3)


@given(st.lists(st.tuples(st.integers(0, 2**53), _odd), min_size=1, max_size=8))
def test_all_at_once_gives_the_same_rows_as_event_by_event(drawn: list[tuple[int, list[tuple[bytes, bytes]]]]) -> None:
    entries: Entries = []
    for ms, extras in drawn:
        told = {name for name, _ in extras}
        plain = [(b"e", b"active"), (b"id", b"a"), (b"ts", b"1700000000000")]
        pairs = [pair for pair in plain if pair[0] not in told] + extras
        entries.append((b"%d-0" % ms, [part for pair in pairs for part in pair]))
    batch = batch_of(entries)
    assert batch is None or batch.to_pylist() == by_entries(entries)
