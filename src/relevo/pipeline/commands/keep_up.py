"""The upkeep command: the files of all tables, at the end of a build or on request. No Spark, no JVM."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from relevo.pipeline.lake import results
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.own import own_specs
from relevo.pipeline.lake.tables import ALL
from relevo.pipeline.lake.upkeep import compact, vacuum


@dataclass(frozen=True)
class KeptUp:
    """How many small files were merged, and how many old ones deleted."""

    merged: int
    deleted: int


def keep_up(lake: Lake, broken: Collection[str] = ()) -> KeptUp:
    """Merges small files, and deletes what nobody needs any more; may run beside an ingest and beside other builds."""
    yet = lake.changes("bronze.events", lake.taken("silver.events", "bronze.events")).added
    merged = compact(lake, "bronze.events", sparing=[file.path for file in yet]).before
    merged += sum(compact(lake, table).before for table in ("silver.events", results.TABLE))
    # What a broken table still shows was made before an erasure: it goes with the version that replaces it.
    there = (*ALL, *own_specs(lake.storage))
    deleted = sum(vacuum(lake, spec.name) for spec in there if spec.name not in broken)
    return KeptUp(merged, deleted)
