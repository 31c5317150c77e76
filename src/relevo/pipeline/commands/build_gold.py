"""Builds gold from the partial sums of silver: only the days that changed, and the days whose numbers depend on those."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.commands.renewal import Renewal
from relevo.pipeline.lake.gold import anomalies as odd
from relevo.pipeline.lake.gold import slo as objectives_met
from relevo.pipeline.lake.gold.failures import failures
from relevo.pipeline.lake.gold.forecast import BACK_HOURS, outlook
from relevo.pipeline.lake.gold.latency import latency
from relevo.pipeline.lake.gold.objectives import Objective
from relevo.pipeline.lake.gold.throughput import nets, throughput
from relevo.pipeline.lake.gold.usage import usage
from relevo.pipeline.lake.instant_columns import part_of
from relevo.pipeline.lake.instants import part_key, part_number
from relevo.pipeline.lake.lake import Lake, Staged
from relevo.pipeline.lake.version import TableVersion

_PLACE = [("source", pa.string()), ("queue", pa.string()), ("name", pa.string())]
_CLOSINGS = pa.schema([*_PLACE, ("net", pa.int64())])
_OPENING = pa.schema([("day", pa.int64()), *_PLACE, ("opening", pa.int64())])
# Spark Connect reads none off an empty table.
_OPENING_COLUMNS = "day bigint, source string, queue string, name string, opening bigint"


Make = Callable[[DataFrame], DataFrame]


def gold_throughput(work: Renewal) -> None:
    """silver.counts -> gold.throughput. A day also changes when the backlog it began with did."""
    if work.stopped("silver.closings", "silver.counts") | work.stopped("gold.throughput", "silver.counts"):
        return
    lake = work.lake
    source = lake.table("silver.counts")
    days = _days(lake, "gold.throughput", source)
    if not days:
        work.unchanged("silver.closings", "gold.throughput")
        return
    balance = _balances(lake)
    before = _openings(balance)
    rows = _of_days(work, "silver.counts", days)
    for day in days:
        balance.pop(day, None)
    for row in [] if rows is None else nets(rows).collect():
        balance.setdefault(row["day"], {})[row["source"], row["queue"], row["name"]] = row["net"]
    after = _openings(balance)
    moved = {day for day in balance if day not in days and after.get(day) != before.get(day)}
    parts = {day: _net_rows(balance.get(day, {})) for day in days}
    if not work.renew("silver.closings", lambda: lake.stage_arrow("silver.closings", parts, _keys(days))):
        work.stopped("gold.throughput", "silver.closings")
        return
    days |= moved
    wanted = _of_days(work, "silver.counts", days)
    openings = work.spark.createDataFrame(_opening_rows(after, days), _OPENING_COLUMNS)
    _renew_days(
        work,
        "gold.throughput",
        days,
        None if wanted is None else throughput(wanted, openings),
        F.unix_millis("minute"),
        {"silver.counts": source.version},
        also=lambda staged: _same_sums(work, staged, wanted),
    )


def gold_latency(work: Renewal) -> None:
    _by_day(work, "gold.latency", "silver.sketches", latency, "at")


def gold_failures(work: Renewal) -> None:
    _by_day(work, "gold.failures", "silver.reasons", failures, "day")


def gold_slo(work: Renewal, objectives: Sequence[Objective]) -> None:
    if work.stopped("gold.slo", "silver.counts"):
        return
    lake = work.lake
    source = lake.table("silver.counts")
    changed = _days(lake, "gold.slo", source)
    if not changed:
        work.unchanged("gold.slo")
        return
    there = source.days | changed  # a day may have lost all its rows
    back = objectives_met.BACK_DAYS
    days = {day for day in there if any(day - back <= one <= day for one in changed)}
    rows = _of_days(work, "silver.counts", {day - ago for day in days for ago in range(back + 1)})
    made = None if rows is None else objectives_met.slo(rows, objectives)
    kept = None if made is None else made.where(part_of(F.unix_millis("hour"), "day").isin(*days))
    _renew_days(work, "gold.slo", days, kept, F.unix_millis("hour"), {"silver.counts": source.version})


def gold_usage(work: Renewal) -> None:
    """By day of use: silver.counts, the archived messages by the day they were made, reviews by the day they were finished."""
    sources = ("silver.counts", "bronze.messages", "silver.reviews")
    if work.stopped("gold.usage", *sources):
        return
    lake, spark = work.lake, work.spark
    found = {name: lake.table(name) for name in sources}
    days = _days(lake, "gold.usage", found["silver.counts"])
    for name in sources[1:]:
        days |= _changed_days(lake, "gold.usage", found[name])
    if not days:
        work.unchanged("gold.usage")
        return
    counted = _of_days(work, "silver.counts", days)
    if counted is None:
        counted = spark.createDataFrame(
            [], "minute_ms bigint, source string, queue string, arrived bigint, started bigint, busy_ms double"
        )
    messages, reviews = (lake.read(spark, name, _keys(days)) for name in sources[1:])
    versions = {name: table.version for name, table in found.items()}
    _renew_days(work, "gold.usage", days, usage(counted, messages, reviews), F.unix_millis("day"), versions)


def gold_anomalies(work: Renewal) -> None:
    if work.stopped("gold.anomalies", "gold.throughput"):
        return
    lake = work.lake
    source = lake.table("gold.throughput")
    changed = _changed_days(lake, "gold.anomalies", source)
    if not changed:
        work.unchanged("gold.anomalies")
        return
    there = {part_number(key, "day") for key in source.partitions}
    if len(there) <= odd.LEAST_DAYS:  # nothing can be unusual yet
        work.unchanged("gold.anomalies")
        return
    days = {day for day in there | changed if any(day - odd.REACH_DAYS <= one <= day for one in changed)}
    needed = {day - ago for day in days for ago in range(odd.REACH_DAYS + 1)} & there
    rows = lake.read(work.spark, "gold.throughput", _keys(needed))
    made = None if rows is None else odd.anomalies(rows, sorted(days))
    _renew_days(work, "gold.anomalies", days, made, F.unix_millis("minute"), {"gold.throughput": source.version})


def gold_forecast(work: Renewal, wait_target_s: float) -> None:
    if work.stopped("gold.forecast", "gold.throughput"):
        return
    lake = work.lake
    source = lake.table("gold.throughput")
    if not _changed_days(lake, "gold.forecast", source):
        work.unchanged("gold.forecast")
        return
    days = sorted(part_number(key, "day") for key in source.partitions if source.partitions[key].rows)
    recent = [day for day in days if day >= days[-1] - BACK_HOURS // 24] if days else []
    rows = lake.read(work.spark, "gold.throughput", _keys(recent)) if recent else None
    if rows is None:
        work.unchanged("gold.forecast")
        return
    made = outlook(rows, wait_target_s=wait_target_s)
    work.renew(
        "gold.forecast",
        lambda: lake.stage("gold.forecast", made, F.lit(0), ["all"]),
        built_from={"gold.throughput": source.version},
    )


# --- days ----------------------------------------------------------------------------------------------------------------


def _days(lake: Lake, table: str, source: TableVersion) -> set[int]:
    """The days whose partial sums have changed since `table` was built from them."""
    changes = lake.changes(source.table, lake.taken(table, source.table), source)
    # Where the log does not reach back far enough, days may have lost all their rows unseen.
    return set(changes.days) | (_partition_days(lake.table(table)) if changes.all_of_it else set())


def _changed_days(lake: Lake, table: str, source: TableVersion) -> set[int]:
    """As `_days`, of a source that has a partition for each day."""
    changes = lake.changes(source.table, lake.taken(table, source.table), source)
    return {part_number(key, "day") for key in changes.keys}


def _partition_days(version: TableVersion) -> set[int]:
    return {part_number(key, "day") for key in version.partitions}


def _keys(days: Iterable[int]) -> list[str]:
    return [part_key(day, "day") for day in sorted(days)]


def _of_days(work: Renewal, table: str, days: set[int]) -> DataFrame | None:
    """The partial sums of these days, from every cohort that adds to one of them."""
    return work.lake.frame_of(work.spark, table, work.lake.table(table).of_days(days))


def _by_day(work: Renewal, table: str, source: str, make: Make, at: str) -> None:
    if work.stopped(table, source):
        return
    version = work.lake.table(source)
    days = _days(work.lake, table, version)
    if not days:
        work.unchanged(table)
        return
    rows = _of_days(work, source, days)
    made = None if rows is None else make(rows)
    _renew_days(work, table, days, made, F.unix_millis(at), {source: version.version})


def _renew_days(
    work: Renewal,
    table: str,
    days: set[int],
    rows: DataFrame | None,
    ms: Column,
    built_from: dict[str, int],
    also: Callable[[Staged], Iterable[str]] | None = None,
) -> None:
    def stage() -> Staged:
        if rows is None:
            return Staged(work.lake.spec(table), {key: [] for key in _keys(days)})
        placed = rows.withColumn("_day", part_of(ms, "day")).repartition("_day").drop("_day")
        return work.lake.stage(table, placed, part_of(ms, "day"), _keys(days))

    work.renew(table, stage, built_from=built_from, also=also)


# --- backlog -------------------------------------------------------------------------------------------------------------

Place = tuple[str, str, str]
"""Source, queue and name."""
Balance = dict[int, dict[Place, int]]


def _balances(lake: Lake) -> Balance:
    found: Balance = {}
    for key in lake.table("silver.closings").partitions:
        rows = lake.arrow("silver.closings", [key])
        found[part_number(key, "day")] = {
            (row["source"], row["queue"], row["name"]): row["net"] for row in ([] if rows is None else rows.to_pylist())
        }
    return found


def _openings(balance: Balance) -> Balance:
    """What each day began with: the sum of the days before it."""
    total: dict[Place, int] = defaultdict(int)
    found: Balance = {}
    for day in sorted(balance):
        found[day] = {place: number for place, number in total.items() if number}
        for place, net in balance[day].items():
            total[place] += net
    return found


def _net_rows(nets_of_day: dict[Place, int]) -> pa.Table:
    rows = [
        {"source": source, "queue": queue, "name": name, "net": net}
        for (source, queue, name), net in sorted(nets_of_day.items())
    ]
    return pa.Table.from_pylist(rows, _CLOSINGS)


def _opening_rows(openings: Balance, days: set[int]) -> pa.Table:
    rows = [
        {"day": day, "source": source, "queue": queue, "name": name, "opening": opening}
        for day in sorted(days)
        for (source, queue, name), opening in openings.get(day, {}).items()
    ]
    return pa.Table.from_pylist(rows, _OPENING)


def _same_sums(work: Renewal, staged: Staged, counts: DataFrame | None) -> list[str]:
    """Nothing was lost or doubled on the way from silver."""
    if counts is None or not staged.rows:
        return []
    columns = ["arrived", "done", "failed", "dead"]
    gold = work.lake.staged_arrow(staged, columns)
    ours = {name: pc.sum(gold[name]).as_py() or 0 for name in columns}
    theirs = counts.agg(*(F.sum(name).alias(name) for name in columns)).first()
    assert theirs is not None
    return [
        f"{name} adds up to what silver.counts has: {ours[name]} against {theirs[name]}"
        for name in columns
        if ours[name] != theirs[name]
    ]
