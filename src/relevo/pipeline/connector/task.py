# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false
# pyarrow comes without types.
"""What one task does: reads a range, or those of many small streams, or one delayed set, and hands Spark record batches."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.event_columns import EventColumns, MixedColumns
from relevo.pipeline.connector.event_rows import EventRows
from relevo.pipeline.connector.filters import Wanted
from relevo.pipeline.connector.job_rows import JobRows
from relevo.pipeline.connector.landing import events_schema, landed
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.connector.page import Page, joined
from relevo.pipeline.connector.pages import Pages
from relevo.pipeline.connector.ranges import IdRange
from relevo.pipeline.connector.replicas import to_read
from relevo.pipeline.connector.streams import encoded

_BATCH_ROWS = 10_000  # Spark's own size of an Arrow batch
_DELAYED_ROWS = 1000


def read_parts(source: SourceOptions, parts: Sequence[IdRange], schema: Any, wanted: Wanted | None) -> Iterator[Any]:
    """What Spark is handed of some ranges: their entries, or, with `landing`, the files they were written to."""
    if source.landing is None:
        return read_ranges(source, parts, schema, wanted)
    return landed(read_ranges(source, parts, events_schema(), None), source.landing, source.source)


def read_ranges(source: SourceOptions, parts: Sequence[IdRange], schema: Any, wanted: Wanted | None) -> Iterator[Any]:
    """The entries of some ranges, one after the other over one connection, as record batches."""
    directory = to_read(source, parts)
    # Pages hold no cycles, and the collector would walk through all their parts again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        if len(parts) > 1 and source.what == "events" and (wanted is None or not wanted.drops_rows):
            yield from _read_together(directory, source, parts, schema)
        else:
            for part in parts:
                yield from _read_range(directory, source, part, schema, wanted)
    finally:
        directory.close()
        if collecting:
            gc.enable()


def _read_together(directory: Directory, source: SourceOptions, parts: Sequence[IdRange], schema: Any) -> Iterator[Any]:
    """Events of many small ranges: to make columns of a page costs the same for ten rows as for a thousand, so their pages are
    joined."""
    waiting, rows = list[tuple[str, Page]](), 0
    for part in parts:
        for page in _pages(directory, source, part, plain=True):
            kept = page.kept()
            waiting.append((part.stream, kept))
            rows += kept.rows
            if rows >= source.page_rows:
                yield from _some(_together(source, waiting, schema))
                waiting, rows = [], 0
    if waiting:
        yield from _some(_together(source, waiting, schema))


def _together(source: SourceOptions, pages: Sequence[tuple[str, Page]], schema: Any) -> Any:
    counts = [page.rows for _, page in pages]
    bodies = [page.body for _, page in pages]
    skipped = [page.skipped for _, page in pages]
    batch = None
    if None not in bodies and (layout := joined(cast("list[bytes]", bodies), sum(counts)).layout) is not None:
        batch = MixedColumns([stream for stream, _ in pages], counts, schema, source.source).batch(layout, 0)
    if batch is not None:
        firsts = np.cumsum([0, *counts[:-1]])[np.array(skipped) > 0]  # at most one of each page was read before
        return batch.take(pa.array(np.delete(np.arange(batch.num_rows), firsts))) if len(firsts) else batch
    made = [
        EventRows(stream, schema, source=source.source).batch(page.entries[page.skipped :]) for stream, page in pages
    ]
    return pa.concat_batches(made)


def _pages(directory: Directory, source: SourceOptions, part: IdRange, *, plain: bool) -> Pages:
    return Pages(
        directory,
        part,
        rows=source.page_rows,
        append_only=source.what == "events",
        fail_on_data_loss=source.fail_on_data_loss,
        plain=plain,
    )


def _read_range(
    directory: Directory, source: SourceOptions, part: IdRange, schema: Any, wanted: Wanted | None
) -> Iterator[Any]:
    keep = wanted.keep if wanted is not None and wanted.drops_rows else None
    if source.what == "events":
        rows: EventRows | JobRows = EventRows(part.stream, schema, keep, source=source.source)
    else:
        raw = source.raw_payload
        rows = JobRows(part.stream, source.what, schema, raw_payload=raw, keep=keep, source=source.source)
    plain = source.what == "events" and keep is None
    columns = EventColumns(part.stream, schema, source.source) if plain else None
    waiting: list[Any] = []
    for page in _pages(directory, source, part, plain=plain):
        ready = None if columns is None or page.layout is None else columns.batch(page.layout, page.skipped)
        if ready is None:
            waiting += page.entries[page.skipped :]
        if waiting and (ready is not None or len(waiting) >= _BATCH_ROWS):
            yield from _some(rows.batch(waiting))
            waiting = []
        if ready is not None:
            yield ready
    if waiting:
        yield from _some(rows.batch(waiting))


def _some(batch: Any) -> Iterator[Any]:
    if batch.num_rows:
        yield batch


def read_delayed(source: SourceOptions, key: str, schema: Any, wanted: Wanted | None) -> Iterator[Any]:
    """The members of a delayed set as record batches, latest first: what is promoted meanwhile leaves at the other end."""
    keep = wanted.keep if wanted is not None and wanted.drops_rows else None
    rows = JobRows(key, "delayed", schema, raw_payload=source.raw_payload, keep=keep, source=source.source)
    directory = Directory(source.connection.address(), timeout_s=source.connection.timeout_s)
    raw_key, below = encoded(key), "+inf"
    handed: set[bytes] = set()
    """Members of the score at which the last page ended: they come again with the next."""
    try:
        while True:
            skip = 0
            fresh: list[tuple[bytes, bytes]] = []
            while True:
                flat = directory.ask(
                    raw_key,
                    *("ZRANGE", raw_key, below, "-inf", "BYSCORE", "REV", "LIMIT", skip, _DELAYED_ROWS, "WITHSCORES"),
                )
                page = list(zip(flat[::2], flat[1::2], strict=True))
                fresh = [pair for pair in page if pair[0] not in handed]
                if fresh or len(page) < _DELAYED_ROWS:
                    break
                skip += len(page)  # more members of one score than a page holds
            if not fresh:
                return
            yield from _some(rows.delayed_batch(fresh))
            last = fresh[-1][1]
            same = {member for member, score in fresh if score == last}
            handed = same | handed if last.decode() == below else same
            below = last.decode()
    finally:
        directory.close()
