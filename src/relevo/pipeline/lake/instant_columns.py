"""Instants as columns of Spark; instants.py has them as numbers, for those who work without it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from relevo.pipeline.lake.instants import MINUTE_MS, SIZE_MS, Span


def part_of(ms: Column, span: Span) -> Column:
    """The number of the partition an instant belongs to: hours or days since 1970; 0 when there is one partition only."""
    return F.lit(0).cast("bigint") if span == "all" else floor_to(ms, SIZE_MS[span])


def floor_to(ms: Column, size_ms: int) -> Column:
    return F.floor(ms / F.lit(size_ms)).cast("bigint")


def minute_of(ms: Column) -> Column:
    """The minute an instant lies in, as its first millisecond."""
    return floor_to(ms, MINUTE_MS) * MINUTE_MS


def moment(ms: Column) -> Column:
    return F.timestamp_millis(ms)
