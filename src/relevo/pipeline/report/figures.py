"""The numbers of a report, read from gold without a JVM and added up to what a page can show."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from relevo.pipeline.lake.instants import DAY_MS, HOUR_MS, MINUTE_MS, part_number
from relevo.pipeline.lake.lake import Lake

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
    """Of these queues (of all), over the last `days` days that gold has."""
    wanted = set(queues)
    manifest = lake.manifest("gold.throughput")
    there = sorted(part_number(key, "day") for key, partition in manifest.partitions.items() if partition.rows)
    first_day = there[-1] - days + 1 if there else 0

    def rows(table: str, at: str | None = None) -> list[Row]:
        keys = [key for key in lake.manifest(table).partitions if key == "all" or part_number(key, "day") >= first_day]
        columns = None if table != "gold.latency" else _LATENCY
        found = lake.arrow(table, keys, columns)
        told = [] if found is None else found.to_pylist()
        if at is not None:
            for row in told:
                row["ms"] = _ms(row[at])
        kept = [row for row in told if not wanted or row["queue"] in wanted]
        for row in kept if len(sources) > 1 else ():  # queues of one name on several servers are several queues
            if row.get("source"):
                row["queue"] = f"{row['queue']} on {row['source']}"
        return kept

    sources = set[str]()
    sources.update(row["source"] for row in rows("gold.throughput"))
    minutes = rows("gold.throughput", "minute")
    start = min((row["ms"] for row in minutes), default=0)
    end = max((row["ms"] for row in minutes), default=0) + MINUTE_MS
    step = next((size for size in _NICE_MS if (end - start) / size <= POINTS), _NICE_MS[-1])
    start = start // step * step
    times = list(range(start, end, step)) if minutes else []
    latency = rows("gold.latency", "at")
    slo = rows("gold.slo", "hour")
    outlook = rows("gold.forecast", "hour")
    place = {at: number for number, at in enumerate(times)}
    burn_times = sorted({row["ms"] for row in slo})
    forecast_times = sorted({row["ms"] for row in outlook})
    return Figures(
        queues=sorted({row["queue"] for row in minutes}),
        start_ms=start,
        end_ms=end,
        step_ms=step,
        times=times,
        totals=_totals(minutes),
        flow=_flow(minutes, place, step),
        backlog=_backlog(minutes, times, step),
        waits=_bands(latency, "wait", times, step),
        runs=_bands(latency, "run", times, step),
        day_latency=_last_days(latency),
        failures=_clusters(rows("gold.failures")),
        slo=_latest(slo),
        burn=_lines(slo, burn_times, "burn_1h"),
        burn_times=burn_times,
        usage=_usage(rows("gold.usage")),
        forecast=_expected(outlook, forecast_times),
        forecast_times=forecast_times,
        outlook=_needs(outlook),
        anomalies=sorted(rows("gold.anomalies", "minute"), key=lambda row: -row["ms"])[:_MOST_CLUSTERS],
        versions={name: lake.manifest(name).version for name in _READ},
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
_USED = ("messages", "bytes", "runs", "handler_s", "reviews")


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _totals(minutes: list[Row]) -> dict[str, float]:
    names = ("arrived", "started", "done", "failed", "retried", "dead", "lost", "cancelled", "busy_ms")
    totals: dict[str, float] = {name: sum(row[name] for row in minutes) for name in names}
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(minutes, key=lambda row: row["ms"]):
        last[row["queue"], row["name"]] = row
    totals["backlog"] = sum(row["backlog"] for row in last.values())
    return totals


def _flow(minutes: list[Row], place: dict[int, int], step: int) -> list[Series]:
    """Rates a minute, so that charts of different steps compare."""
    found = {name: [0.0] * len(place) for name in ("arrived", "done", "failed", "dead")}
    for row in minutes:
        at = place[row["ms"] // step * step]
        for name, values in found.items():
            values[at] += row[name] * MINUTE_MS / step
    return [Series(name, [*values]) for name, values in found.items()]


def _backlog(minutes: list[Row], times: list[int], step: int) -> list[Series]:
    """What was left at the end of each bucket: the last that each queue and name said up to then."""
    by_queue: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(minutes, key=lambda row: row["ms"]):
        by_queue[row["queue"]].append(row)
    found: list[Series] = []
    for queue, rows in by_queue.items():
        left: dict[str, int] = {}
        values: list[float | None] = []
        at = 0
        for time in times:
            while at < len(rows) and rows[at]["ms"] < time + step:
                left[rows[at]["name"]] = rows[at]["backlog"]
                at += 1
            values.append(float(sum(left.values())))
        found.append(Series(queue, values))
    return sorted(found, key=lambda series: -max(value or 0 for value in series.values))[:6]


def _bands(latency: list[Row], measure: str, times: list[int], step: int) -> list[Series]:
    """The worst of a bucket's percentiles: a page cannot merge sketches, and must not make a bad minute look good."""
    grain = "minute" if step < HOUR_MS else "hour" if step < DAY_MS else "day"
    found: dict[str, dict[int, float]] = {name: {} for name in ("p50", "p95", "p99")}
    for row in latency:
        if row["grain"] == grain and row["measure"] == measure:
            at = row["ms"] // step * step
            for name, values in found.items():
                values[at] = max(values.get(at, 0.0), row[f"{name}_ms"])
    return [Series(name, [values.get(at) for at in times]) for name, values in found.items()]


def _last_days(latency: list[Row]) -> list[Row]:
    days = [row for row in latency if row["grain"] == "day"]
    newest = max((row["ms"] for row in days), default=0)
    kept = [row for row in days if row["ms"] == newest]
    return sorted(kept, key=lambda row: (row["queue"], row["name"], ("wait", "run", "total").index(row["measure"])))


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


def _latest(rows: list[Row]) -> list[Row]:
    newest: dict[str, Row] = {}
    for row in rows:
        if row["queue"] not in newest or row["ms"] > newest[row["queue"]]["ms"]:
            newest[row["queue"]] = row
    return [newest[queue] for queue in sorted(newest)]


def _lines(rows: list[Row], times: list[int], column: str) -> list[Series]:
    by_queue: dict[str, dict[int, float]] = defaultdict(dict)
    for row in rows:
        by_queue[row["queue"]][row["ms"]] = row[column]
    found = [Series(queue, [values.get(at) for at in times]) for queue, values in by_queue.items()]
    return sorted(found, key=lambda series: -max(value or 0 for value in series.values))[:6]


def _usage(rows: list[Row]) -> list[Row]:
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        empty = {"tenant": row["tenant"], "queue": row["queue"], **dict.fromkeys(_USED, 0)}
        total = found.setdefault((row["tenant"], row["queue"]), empty)
        for name in _USED:
            total[name] += row[name]
    return sorted(found.values(), key=lambda row: -row["messages"])


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
