"""What the data pipeline is to reach on two cores, each as a ratio within one run (or GB)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Figures
from benchmarks.outcome import Outcome
from benchmarks.spark.rates import BATCH, BULK, CONSUME, DRAIN, FEW, MANY, RAW, SINK, STREAMING

BUILD = "build"
WIDE = "a lake of 1,000 queues"
GB = 10**9


def sizes(figures: Figures) -> list[int]:
    """The sizes of the lakes that were built, in events."""
    return sorted(int(who.partition(" of ")[2]) for who in figures.all if who.startswith(f"{BUILD} of "))


def lake(size: int) -> str:
    return f"{BUILD} of {size}"


def outcomes(figures: Figures) -> Iterator[Outcome]:
    yield Outcome("", "batch", "batch ingest to Parquet, share of raw reading", 0.60, _share(figures, BATCH, RAW))
    title = "streaming ingest, 500k rows a trigger, share of raw reading"
    yield Outcome("", "streaming", title, 0.45, _share(figures, STREAMING, RAW))
    yield Outcome("", "sink", "sink, share of our own bulk add", 0.60, _share(figures, SINK, BULK))
    title = "ingest of 1,000 queues, times that of one queue with the same events"
    yield Outcome("", "queues", title, 3.0, _share(figures, FEW, MANY), less_is_better=True)
    title = "a query that consumes, share of our own worker's drain"
    yield Outcome("", "consume", title, 0.30, _share(figures, CONSUME, DRAIN))
    built = sizes(figures)
    if built:
        least, most = lake(built[0]), lake(built[-1])
        costs = [figures.median(who, "µs an event") for who in (most, least)]
        linear = None if len(built) < 2 or None in costs else (costs[0] or 0) / (costs[1] or 1)
        title = f"build, cost of an event at {built[-1] / 1e6:g}M, times that at {built[0] / 1e6:g}M"
        yield Outcome("", "linear", title, 1.1, linear, less_is_better=True)
        title = f"refresh after 1 % new events, share of a full build at {built[-1] / 1e6:g}M"
        yield Outcome("", "refresh", title, 0.10, figures.median(most, "refresh share"), less_is_better=True)
        peak = figures.median(most, "peak bytes")
        title = f"driver and executors while they build {built[-1] / 1e6:g}M, GB"
        yield Outcome("", "memory", title, 4.0, None if peak is None else peak / GB, less_is_better=True)
    peaks = [each for what in ("report", "forecast") if (each := figures.median(WIDE, what)) is not None]
    title = "Python of the driver, report and forecast of 1,000 queues, GB"
    yield Outcome("", "wide", title, 1.0, max(peaks) / GB if peaks else None, less_is_better=True)


def _share(figures: Figures, mine: str, theirs: str) -> float | None:
    ours, base = figures.median(mine, "rate"), figures.median(theirs, "rate")
    return ours / base if ours is not None and base else None
