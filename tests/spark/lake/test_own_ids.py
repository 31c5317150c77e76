"""Ids that are no ULIDs: a refresh that meets one looks for its job among those of the last weeks, not among all of them."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relevo.pipeline.commands.build_silver import take_in_events
from relevo.pipeline.commands.renewal import Renewal
from relevo.pipeline.lake.instant_columns import part_of
from relevo.pipeline.lake.instants import HOUR_MS, part_key
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.silver.cohorts import LOOK_BACK_HOURS
from relevo.wire.ids import IdMint
from tests.spark.lake.happenings import START, Happenings

NOW = START // HOUR_MS
YESTERDAY, OLDEST, BEFORE = NOW - 24, NOW - LOOK_BACK_HOURS + 1, NOW - LOOK_BACK_HOURS


class WatchedLake(Lake):
    """Notes which partitions of which tables are read through Spark."""

    def __init__(self, where: Path) -> None:
        super().__init__(where)
        self.looked_at: dict[str, set[str]] = {}

    def read(self, spark: SparkSession, table: str, keys: Iterable[str] | None = None) -> DataFrame | None:
        asked = self.table(table).partitions if keys is None else list(keys)
        self.looked_at.setdefault(table, set()).update(asked)
        return super().read(spark, table, asked)


def refresh(lake: Lake, spark: SparkSession, told: Happenings) -> dict[str, int]:
    """Takes events in, and tells in which hour the job of each id lives."""
    staged = lake.stage("bronze.events", told.frame(spark), part_of(F.unix_millis("_ts"), "day"))
    lake.commit(staged, instead=False)
    take_in_events(Renewal(lake, spark))
    homes: Any = lake.arrow("silver.events", columns=["job_id", "cohort_hour"])
    return dict(zip(homes["job_id"].to_pylist(), homes["cohort_hour"].to_pylist(), strict=True))


def known_jobs(hour: int, *ids: str) -> Any:
    columns = {"source": ["one"] * len(ids), "queue": ["emails"] * len(ids), "job_id": list(ids)}
    return pa.table({**columns, "cohort_hour": pa.array([hour] * len(ids), pa.int64())})


def test_an_id_that_is_no_ulid_makes_a_refresh_read_the_jobs_of_the_last_weeks_and_a_flow_s_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = WatchedLake(tmp_path / "lake")
    there = {NOW: ("new",), YESTERDAY: ("order-7",), OLDEST: ("order-1",), BEFORE: ("order-0",)}
    jobs = {hour: known_jobs(hour, *ids) for hour, ids in there.items()}
    lake.commit(lake.stage_arrow("silver.jobs", jobs), instead=False)

    minted, flow = IdMint()(START - 2 * HOUR_MS), Happenings()
    for job in (
        minted,
        f"{minted}.0.fetch",
        f"{minted}.1.page-2",
    ):  # as engine/producing/flows.py names the jobs of a flow
        flow.tell(START, "active", job, attempt=1)
    assert refresh(lake, spark, flow) == dict.fromkeys((row["id"] for row in flow.rows), NOW - 2)
    assert "silver.jobs" not in lake.looked_at

    own = Happenings()
    for job in ("order-7", "order-1", "order-0", "order-8"):
        own.tell(START + 1000, "active", job, attempt=1)
    homes = refresh(lake, spark, own)
    assert lake.looked_at["silver.jobs"] == {part_key(hour, "hour") for hour in (NOW, YESTERDAY, OLDEST)}
    found = {job: homes[job] for job in ("order-7", "order-1", "order-0", "order-8")}
    assert found == {"order-7": YESTERDAY, "order-1": OLDEST, "order-0": NOW, "order-8": NOW}  # order-0: another one
