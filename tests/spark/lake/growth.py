"""One lake of a given size: how long its build takes, and its refresh after one more hundredth; and whether both are right.

`python -m tests.spark.lake.growth <folder> <events> ...` does it in a process of its own, with the session that users get, so
that its memory is the memory of a driver and its executors and of nothing else. A line of JSON for each size.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from relevo.pipeline.commands.build import Built, build
from relevo.pipeline.lake.instant_columns import part_of
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.session import session
from tests.spark.footprint import Peak
from tests.spark.lake.volumes import Volume

EVENTS_A_JOB = 2.095
"""On average, of the volumes' jobs."""


@dataclass(frozen=True)
class Grown:
    """What came of one size."""

    events: int
    build_s: float
    new_events: int
    refresh_s: float
    peak_bytes: int

    @property
    def us_an_event(self) -> float:
        return self.build_s / self.events * 1e6

    @property
    def refresh_share(self) -> float:
        return self.refresh_s / self.build_s


def grown(spark: SparkSession, folder: Path, events: int, *, days: float = 2.0) -> Grown:
    """Builds a lake of about so many events, then refreshes it after a hundredth more; all sums are checked."""
    lake, volume = Lake(folder), Volume(round(events / EVENTS_A_JOB), days)
    take_in(lake, spark, volume)
    with Peak() as peak:
        began = time.perf_counter()
        _must_be_whole(build(lake, spark))
        built = time.perf_counter()
        _must_add_up(lake, volume)
        more = volume.then(volume.jobs // 100)
        take_in(lake, spark, more)
        again = time.perf_counter()
        _must_be_whole(build(lake, spark))
        refreshed = time.perf_counter()
    _must_add_up(lake, volume, more)
    return Grown(volume.events, built - began, more.events, refreshed - again, peak.bytes)


def take_in(lake: Lake, spark: SparkSession, volume: Volume) -> None:
    """What the ingest job does with a batch."""
    staged = lake.stage("bronze.events", volume.frame(spark), part_of(F.unix_millis("_ts"), "day"))
    assert staged.rows == volume.events
    lake.commit(staged, instead=False)


def _must_be_whole(built: Built) -> None:
    assert built.broken == ()


def _must_add_up(lake: Lake, *volumes: Volume) -> None:
    rows: Any = lake.arrow("gold.throughput", columns=["arrived", "done", "failed", "dead"])
    found = {name: pc.sum(rows[name]).as_py() for name in rows.column_names}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportAttributeAccessIssue]
    jobs, dead = sum(each.jobs for each in volumes), sum(each.dying for each in volumes)
    failed = sum(each.failing for each in volumes)
    assert found == {"arrived": jobs, "done": jobs - dead, "failed": failed, "dead": dead}


def main(folder: Path, sizes: list[int]) -> None:
    spark = session("local[2]", log=folder / "spark.log")
    grown(spark, folder / "warm", 100_000)  # the JVM compiles what it meets often
    for size in sizes:
        sys.stdout.write(json.dumps(asdict(grown(spark, folder / "lake", size))) + "\n")
        sys.stdout.flush()
        shutil.rmtree(folder / "lake")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(size) for size in sys.argv[2:]])
