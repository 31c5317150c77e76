"""The numbers of a report, read from gold without a JVM and added up to what a page can show."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from relevo.pipeline.lake.instants import DAY_MS, HOUR_MS, MINUTE_MS
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.report.gold_days import GoldDays, with_bucket

POINTS = 180
"""About how many points a chart has: more than that is not seen at its width."""

_NICE_MS = tuple(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440, 2880, 10080))
_MOST_CLUSTERS = 12

Row = dict[str, Any]


@dataclass(frozen=True)
class Series:
    """One line or area: a value for each bucket; None where there is nothing to say."""

    name: str
    values: list[float | None]


@dataclass
class Figures:
    """Everything a report shows."""

    queues: list[str]
    start_ms: int
    end_ms: int
    step_ms: int
    times: list[int]
    totals: dict[str, float]
    flow: list[Series]
    backlog: list[Series]
    waits: list[Series]
    runs: list[Series]
    day_latency: list[Row]
    failures: list[Row]
    slo: list[Row]
    burn: list[Series]
    burn_times: list[int]
    usage: list[Row]
    forecast: list[Series]
    forecast_times: list[int]
    outlook: list[Row]
    anomalies: list[Row]
    versions: dict[str, int] = field(default_factory=dict[str, int])


def figures(lake: Lake, *, queues: Iterable[str] = (), days: int = 7) -> Figures:
    """Of these queues (of all), over the last `days` days that gold has. A day is read, added up and let go before the next:
    a thousand queues have ten million minutes in a week."""
    gold = GoldDays(lake, queues=queues, days=days)
    start, end = gold.span("gold.throughput", "minute")
    end += MINUTE_MS if end else 0
    step = next((size for size in _NICE_MS if (end - start) / size <= POINTS), _NICE_MS[-1])
    start = start // step * step
    times = list(range(start, end, step)) if end else []
    minutes = _Minutes(gold, times, step)
    waits, runs = _bands(gold, times, step)
    slo = gold.last("gold.slo", "hour", by="queue")
    outlook = gold.rows("gold.forecast", "hour")
    burn_times, burn = _burn(gold, slo)
    forecast_times = sorted({row["ms"] for row in outlook})
    return Figures(
        queues=sorted(minutes.queues),
        start_ms=start,
        end_ms=end,
        step_ms=step,
        times=times,
        totals=minutes.totals(),
        flow=minutes.flow(),
        backlog=minutes.backlog(),
        waits=waits,
        runs=runs,
        day_latency=_last_days(gold),
        failures=_clusters(gold.rows("gold.failures")),
        slo=sorted(slo, key=lambda row: row["queue"]),
        burn=burn,
        burn_times=burn_times,
        usage=_usage(gold.sums("gold.usage", ["tenant", "queue"], _USED)),
        forecast=_expected(outlook, forecast_times),
        forecast_times=forecast_times,
        outlook=_needs(outlook),
        anomalies=gold.newest("gold.anomalies", "minute", _MOST_CLUSTERS),
        versions={name: lake.table(name).version for name in _READ},
    )


_READ = (
    "gold.throughput",
    "gold.latency",
    "gold.failures",
    "gold.slo",
    "gold.usage",
    "gold.forecast",
    "gold.anomalies",
)
_LATENCY = [
    *("grain", "at", "source", "queue", "name", "measure", "count"),
    *("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"),
]
_BANDS = {"p50": "p50_ms", "p95": "p95_ms", "p99": "p99_ms"}
_SUMMED = ("arrived", "started", "done", "failed", "retried", "dead", "lost", "cancelled", "busy_ms")
_MOST_LINES = 6
_USED = ("messages", "bytes", "runs", "handler_s", "reviews")


class _Minutes:
    """gold.throughput, added up to the buckets of a chart."""

    def __init__(self, gold: GoldDays, times: list[int], step: int) -> None:
        self._times = times
        self._step = step
        self._place = {at: number for number, at in enumerate(times)}
        self._sums = {name: [0.0] * len(times) for name in _SUMMED}
        self._left: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        """By queue and name: what was left at the end of the buckets in which it said something."""
        for day in gold.each("gold.throughput", ["minute", "source", "queue", "name", "backlog", *_SUMMED], "minute"):
            self._add(with_bucket(day, step))

    @property
    def queues(self) -> set[str]:
        return {queue for queue, _ in self._left}

    def _add(self, day: Any) -> None:
        sums = day.group_by("bucket").aggregate([(name, "sum") for name in _SUMMED])
        for at, *values in zip(*(sums[name].to_pylist() for name in ("bucket", *_sums_of(_SUMMED))), strict=True):
            for name, value in zip(_SUMMED, values, strict=True):
                self._sums[name][self._place[at]] += value
        last = (
            day.sort_by("ms").group_by(["queue", "name", "bucket"], use_threads=False).aggregate([("backlog", "last")])
        )
        columns = (last[name].to_pylist() for name in ("queue", "name", "bucket", "backlog_last"))
        for queue, name, at, left in zip(*columns, strict=True):
            self._left[queue, name][at] = left

    def totals(self) -> dict[str, float]:
        totals: dict[str, float] = {name: sum(values) for name, values in self._sums.items()}
        totals["backlog"] = sum(said[max(said)] for said in self._left.values())
        return totals

    def flow(self) -> list[Series]:
        """Rates a minute, so that charts of different steps compare."""
        rate = MINUTE_MS / self._step
        return [
            Series(name, [value * rate for value in self._sums[name]]) for name in ("arrived", "done", "failed", "dead")
        ]

    def backlog(self) -> list[Series]:
        """What was left at the end of each bucket, of the queues with most of it: the last that each name said up to then."""
        by_queue: dict[str, list[float]] = {}
        for (queue, _), said in self._left.items():
            values, left = by_queue.setdefault(queue, [0.0] * len(self._times)), 0
            for number, at in enumerate(self._times):
                left = said.get(at, left)
                values[number] += left
        found = [Series(queue, [*values]) for queue, values in by_queue.items()]
        return sorted(found, key=lambda series: -max(value or 0 for value in series.values))[:_MOST_LINES]


def _bands(gold: GoldDays, times: list[int], step: int) -> tuple[list[Series], list[Series]]:
    """The worst of a bucket's percentiles, of waits and of runs: a page cannot merge sketches, and must not make a bad minute
    look good."""
    grain = "minute" if step < HOUR_MS else "hour" if step < DAY_MS else "day"
    worst: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for day in gold.each("gold.latency", ["grain", "at", "queue", "measure", *_BANDS.values()], "at"):
        some = with_bucket(day.filter(pc.equal(day["grain"], grain)), step)
        most = some.group_by(["measure", "bucket"]).aggregate([(column, "max") for column in _BANDS.values()])
        for row in most.to_pylist():
            for name, column in _BANDS.items():
                values = worst[row["measure"], name]
                values[row["bucket"]] = max(values.get(row["bucket"], 0.0), row[f"{column}_max"])

    def series(measure: str) -> list[Series]:
        return [Series(name, [worst[measure, name].get(at) for at in times]) for name in _BANDS]

    return series("wait"), series("run")


def _last_days(gold: GoldDays) -> list[Row]:
    """Percentiles of the newest day that has any."""
    newest: list[Row] = []
    for day in gold.each("gold.latency", _LATENCY, "at"):
        found = day.filter(pc.equal(day["grain"], "day")).to_pylist()
        latest = max((row["ms"] for row in (*newest, *found)), default=0)
        newest = [row for row in (*newest, *found) if row["ms"] == latest]
    return sorted(newest, key=lambda row: (row["queue"], row["name"], ("wait", "run", "total").index(row["measure"])))


def _clusters(rows: list[Row]) -> list[Row]:
    """Days added up: counts and shares over all of them."""
    found: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = (row["queue"], row["kind"], row["reason"])
        known = found.get(key)
        if known is None:
            found[key] = dict(row)
            continue
        known["count"] += row["count"]
        if row["first_seen_at"] < known["first_seen_at"]:
            known.update(
                first_seen_at=row["first_seen_at"], example=row["example"], example_job_id=row["example_job_id"]
            )
        known["last_seen_at"] = max(known["last_seen_at"], row["last_seen_at"])
    totals: dict[tuple[str, str], int] = defaultdict(int)
    for (queue, kind, _), row in found.items():
        totals[queue, kind] += row["count"]
    for (queue, kind, _), row in found.items():
        row["share"] = row["count"] / totals[queue, kind]
    return sorted(found.values(), key=lambda row: -row["count"])[:_MOST_CLUSTERS]


def _burn(gold: GoldDays, slo: list[Row]) -> tuple[list[int], list[Series]]:
    """How the error budget burns, of the queues where it burns most."""
    worst = gold.largest("gold.slo", "burn_1h", by="queue")
    shown = sorted((row["queue"] for row in slo), key=lambda queue: -(worst.get(queue) or 0.0))[:_MOST_LINES]
    by_queue: dict[str, dict[int, float]] = {queue: {} for queue in shown}
    for day in gold.each("gold.slo", ["hour", "queue", "burn_1h"], "hour"):
        some = day.filter(pc.is_in(day["queue"], pa.array(shown, pa.string())))
        for queue, at, value in zip(*(some[name].to_pylist() for name in ("queue", "ms", "burn_1h")), strict=True):
            by_queue[queue][at] = value
    times = sorted({at for values in by_queue.values() for at in values})
    return times, [Series(queue, [values.get(at) for at in times]) for queue, values in by_queue.items()]


def _usage(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row["messages"])


def _sums_of(names: Iterable[str]) -> list[str]:
    return [f"{name}_sum" for name in names]


def _expected(rows: list[Row], times: list[int]) -> list[Series]:
    names = (("arrivals", "arrivals"), ("high", "arrivals_high"), ("backlog", "backlog"))
    sums = {name: dict.fromkeys(times, 0.0) for name, _ in names}
    for row in rows:
        for name, column in names:
            sums[name][row["ms"]] += row[column]
    return [Series(name, [values[at] for at in times]) for name, values in sums.items()]


def _needs(rows: list[Row]) -> list[Row]:
    """By queue: the busiest hour to come, and the most workers any hour needs."""
    found: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (row["workers"], row["arrivals_high"])):
        found[row["queue"]] = row
    return [found[queue] for queue in sorted(found)]


def share(part: float, whole: float) -> float:
    """
    >>> share(1, 4), share(1, 0)
    (0.25, nan)
    """
    return part / whole if whole else math.nan
