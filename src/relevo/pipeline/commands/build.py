"""The build command: bronze to silver to gold, only what has changed. Safe to kill at any point: the next build goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relevo.pipeline.commands import build_gold as gold
from relevo.pipeline.commands import build_silver as silver
from relevo.pipeline.commands.build_own import build_own
from relevo.pipeline.commands.keep_up import keep_up
from relevo.pipeline.commands.lineage import Lineage
from relevo.pipeline.commands.progress import Built, Tell, nobody
from relevo.pipeline.commands.renewal import Renewal
from relevo.pipeline.lake import results
from relevo.pipeline.lake.gold.objectives import DEFAULT, Objective
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.own import own_tables
from relevo.pipeline.lake.tables import ALL

BUILT = tuple(
    spec.name
    for spec in ALL
    if (spec.layer != "bronze" or spec.name == "bronze.quarantine") and spec.name != results.TABLE
)
"""The tables a build renews, in order."""


def build(
    lake: Lake,
    spark: SparkSession,
    *,
    objectives: Sequence[Objective] = DEFAULT,
    wait_target_s: float = 10.0,
    tell: Tell = nobody,
    upkeep: bool = True,
    platform_queues: bool = False,
    lineage: Lineage | None = None,
) -> Built:
    """Renews every table whose sources have changed, also those of the lake's own SQL files; gold leaves out the platform's
    own queues unless they are asked for. A table that breaks its expectations keeps its last good version.
    `lineage` is a server that is told what each table was made from."""
    began = time.monotonic()
    lake.must_exist()
    own = own_tables(lake.storage)
    work = Renewal(lake, spark, tell)
    try:
        _renew(work, objectives, wait_target_s, platform_queues=platform_queues)
        build_own(work, own)
    except (PySparkException, Py4JError):
        lake.must_be_readable()  # a file that was damaged is told by its name
        raise
    finally:
        results.record(lake, work.checked)
    order = (*BUILT, *(table.name for table in own))
    built = Built(tuple(sorted(work.steps, key=lambda step: order.index(step.table))), time.monotonic() - began)
    if lineage is not None:
        lineage.tell(lake, built)
    if upkeep:
        keep_up(lake, {step.table for step in built.broken})
    return built


def _renew(work: Renewal, objectives: Sequence[Objective], wait_target_s: float, *, platform_queues: bool) -> None:
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
