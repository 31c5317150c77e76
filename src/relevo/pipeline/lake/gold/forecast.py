"""gold.forecast: what will arrive in each of the next hours, what backlog that leaves, and how many workers keep waits short.

Arrivals: the mean of the same hour on the last seven days, times how the last day compares with the one before it. Workers:
Erlang's formula for a queue with many servers, which is pessimistic for runs that vary less than exponentially. Each queue
is reckoned in a task of its own. How good that is stands in the table: the forecast that a day earlier would have made of the
last day, against what came.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.lake.instant_columns import moment
from relevo.pipeline.lake.instants import HOUR_MS

HOURS_AHEAD = 24
BACK_HOURS = 7 * 24
_MOST_WORKERS = 100_000
_TREND = (0.5, 2.0)
_PLACE = ("source", "queue")


class Hour(NamedTuple):
    """What one hour of a queue saw. `hour` counts from 1970."""

    source: str
    queue: str
    hour: int
    arrived: int
    ended: int
    busy_s: float
    runs: int
    backlog: int


class Outlook(NamedTuple):
    """One hour to come."""

    source: str
    queue: str
    hour: int
    arrivals: float
    arrivals_high: float
    backlog: float
    mean_run_s: float
    workers: int
    wait_target_s: float
    backtest_error: float | None
    """How far the forecast of the last day was off, as a share of what came; None without two days to tell from."""


def outlook(throughput: DataFrame, *, wait_target_s: float = 10.0, ahead: int = HOURS_AHEAD) -> DataFrame:
    """The outlook of every queue in these days of gold.throughput, in Spark: no queue's hours pass through the driver."""
    hour = F.floor(F.unix_millis("minute") / HOUR_MS).alias("hour")
    ended = F.col("done") + F.col("dead") + F.col("cancelled")
    by_name = throughput.groupBy("source", "queue", hour, "name").agg(
        F.sum("arrived").alias("arrived"),
        F.sum(ended).alias("ended"),
        (F.sum("busy_ms") / 1000).cast("double").alias("busy_s"),
        F.sum("started").alias("runs"),
        F.max_by("backlog", "minute").alias("backlog"),
    )
    hours = by_name.groupBy(*_PLACE, "hour").agg(*(F.sum(name).alias(name) for name in Hour._fields[3:]))
    newest = hours.agg(F.max("hour").alias("now"))

    def of_one(rows: Any) -> Any:
        seen = [Hour(*row) for row in rows[list(Hour._fields)].itertuples(index=False, name=None)]
        found = forecast(seen, wait_target_s=wait_target_s, ahead=ahead, now=int(rows["now"].iloc[0]))
        return type(rows)(found, columns=list(Outlook._fields))

    told = hours.crossJoin(F.broadcast(newest)).groupBy(*_PLACE).applyInPandas(of_one, _OUTLOOK)  # pyright: ignore[reportUnknownMemberType]
    return told.withColumn("hour", moment(F.col("hour") * HOUR_MS))


_OUTLOOK = (
    "source string, queue string, hour bigint, arrivals double, arrivals_high double, backlog double, mean_run_s double, "
    "workers bigint, wait_target_s double, backtest_error double"
)


def forecast(
    hours: Sequence[Hour], *, wait_target_s: float = 10.0, ahead: int = HOURS_AHEAD, now: int | None = None
) -> list[Outlook]:
    """The outlook of every queue that was seen in the last week before `now`, by default the newest hour."""
    by_queue: dict[tuple[str, str], dict[int, Hour]] = defaultdict(dict)
    for hour in hours:
        by_queue[hour.source, hour.queue][hour.hour] = hour
    now = max((hour.hour for hour in hours), default=0) if now is None else now
    outlooks: list[Outlook] = []
    for place in sorted(by_queue):
        seen = {at: hour for at, hour in by_queue[place].items() if now - BACK_HOURS < at <= now}
        if seen:
            outlooks += _outlook(place, seen, now, wait_target_s, ahead)
    return outlooks


def _outlook(
    place: tuple[str, str], seen: dict[int, Hour], now: int, wait_target_s: float, ahead: int
) -> list[Outlook]:
    runs = sum(hour.runs for hour in seen.values())
    arrived = sum(hour.arrived for hour in seen.values())
    busy_s = sum(hour.busy_s for hour in seen.values())
    mean_run_s = busy_s / runs if runs else 0.0
    runs_a_job = runs / arrived if arrived else 1.0
    error = _backtest_error(seen, now)
    # What the workers there are have shown they can end in an hour: more than they had to, they may never have been asked.
    capacity = max((hour.ended for hour in seen.values()), default=0)
    backlog = float(seen[max(seen)].backlog)
    rows: list[Outlook] = []
    for at in range(now + 1, now + 1 + ahead):
        arrivals, spread = _arrivals(seen, now, at)
        high = arrivals + 2 * max(spread, math.sqrt(arrivals))
        backlog = max(0.0, backlog + arrivals - capacity)
        need = workers_needed(high / 3600 * runs_a_job, mean_run_s, wait_target_s)
        rows.append(Outlook(*place, at, arrivals, high, backlog, mean_run_s, need, wait_target_s, error))
    return rows


def _arrivals(seen: dict[int, Hour], now: int, at: int) -> tuple[float, float]:
    """What is expected in one hour to come, and how much the same hours before differ."""
    first = min(seen)
    same = [seen[past].arrived if past in seen else 0 for past in range(at - 24, first - 1, -24)]
    if not same:
        return sum(hour.arrived for hour in seen.values()) / (now - first + 1) * _trend(seen, now, first), 0.0
    mean = sum(same) / len(same)
    spread = math.sqrt(sum((value - mean) ** 2 for value in same) / len(same)) if len(same) > 1 else 0.0
    return mean * _trend(seen, now, first), spread


def _backtest_error(seen: dict[int, Hour], now: int) -> float | None:
    """The mean error of each hour of the last day, had it been forecast the day before, over the mean of what came."""
    then = now - 24
    known = {at: hour for at, hour in seen.items() if at <= then}
    if not known or min(known) > then - 23:
        return None
    came = [seen[at].arrived if at in seen else 0 for at in range(then + 1, now + 1)]
    off = [abs(_arrivals(known, then, then + 1 + number)[0] - value) for number, value in enumerate(came)]
    return sum(off) / sum(came) if sum(came) else None


def _trend(seen: dict[int, Hour], now: int, first: int) -> float:
    """The last day against the one before; 1 when there are not two whole days."""
    if first > now - 47:
        return 1.0
    last = sum(seen[at].arrived for at in range(now - 23, now + 1) if at in seen)
    before = sum(seen[at].arrived for at in range(now - 47, now - 23) if at in seen)
    low, high = _TREND
    return min(high, max(low, last / before)) if before else 1.0


def workers_needed(rate_per_s: float, mean_run_s: float, wait_target_s: float) -> int:
    """The fewest runners at a time that keep the mean wait within the target.

    >>> workers_needed(10.0, 1.0, 0.1), workers_needed(0.0, 1.0, 0.1)
    (13, 0)
    """
    load = rate_per_s * mean_run_s
    if load <= 0:
        return 0
    workers = math.floor(load) + 1
    while workers < _MOST_WORKERS:
        wait = erlang_c(workers, load) * mean_run_s / (workers - load)
        if wait <= wait_target_s:
            return workers
        workers += max(1, int((workers - load) * 0.1))
    return workers


def erlang_c(workers: int, load: float) -> float:
    """The share of jobs that have to wait at all, with `load` runners busy on average."""
    blocked = 1.0
    for number in range(1, workers + 1):
        blocked = load * blocked / (number + load * blocked)
    use = load / workers
    return blocked / (1 - use + use * blocked)
