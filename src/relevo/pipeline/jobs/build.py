"""The build job: bronze to silver to gold, only what has changed. Safe to kill at any point: the next build goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from relevo.pipeline.jobs import build_gold as gold
from relevo.pipeline.jobs import build_silver as silver
from relevo.pipeline.jobs.progress import Step, Tell, nobody
from relevo.pipeline.jobs.renewal import Renewal
from relevo.pipeline.lake.gold.objectives import DEFAULT, Objective
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.tables import ALL

BUILT = tuple(spec.name for spec in ALL if spec.layer != "bronze" or spec.name == "bronze.quarantine")
"""The tables a build renews, in order."""


@dataclass(frozen=True)
class Built:
    """What a build did."""

    steps: tuple[Step, ...]
    seconds: float

    @property
    def broken(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.state in ("broken", "skipped"))


def build(
    lake: Lake,
    spark: SparkSession,
    *,
    objectives: Sequence[Objective] = DEFAULT,
    wait_target_s: float = 10.0,
    tell: Tell = nobody,
    upkeep: bool = True,
    platform_queues: bool = False,
) -> Built:
    """Renews every table whose sources have changed; gold leaves out the platform's own queues unless they are asked for.
    A table that breaks its expectations keeps its last good version."""
    began = time.monotonic()
    lake.must_exist()
    work = Renewal(lake, spark, tell)
    silver.take_in_events(work)
    silver.tell_stories(work)
    work.at_once(
        lambda: silver.take_in_reviews(work),
        *(
            partial(silver.add_up, work, table, objectives, platform_queues=platform_queues)
            for table in silver.PARTIALS
        ),
    )
    work.at_once(
        lambda: gold.gold_throughput(work),
        lambda: gold.gold_latency(work),
        lambda: gold.gold_slo(work, objectives),
        lambda: gold.gold_failures(work),
        lambda: gold.gold_usage(work),
    )
    work.at_once(lambda: gold.gold_anomalies(work), lambda: gold.gold_forecast(work, wait_target_s))
    if upkeep:
        _upkeep(lake, spark)
    return Built(tuple(sorted(work.steps, key=lambda step: BUILT.index(step.table))), time.monotonic() - began)


def _upkeep(lake: Lake, spark: SparkSession) -> None:
    taken = lake.manifest("silver.events").built_from.get("bronze.events", 0)
    lake.compact(spark, "bronze.events", upto=taken)
    told = min(lake.manifest(name).built_from.get("silver.events", 0) for name in ("silver.attempts", "silver.jobs"))
    lake.compact(spark, "silver.events", upto=told)
    for spec in ALL:
        lake.vacuum(spec.name)
