"""A lake of very many queues: a week in which each of them has work in a minute of four.

`python -m tests.spark.lake.wide report|forecast <folder>` makes that of it in a process of its own and says in JSON how many
queues it is about, how many jobs came, and how much memory the driver's Python had at most.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false
# pyarrow comes without types.

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from relevo.pipeline.commands.report import report
from relevo.pipeline.lake.instants import DAY_MS
from relevo.pipeline.lake.lake import Lake

QUEUES = 1_000
DAYS = 7
MINUTES = 360
_LAST_DAY = 20_000


def fill(lake: Lake) -> None:
    """gold.throughput and gold.latency."""
    names = pa.array([f"queue-{number:04}" for number in range(QUEUES)] * MINUTES)
    count = QUEUES * MINUTES
    ones, numbers = pa.array([1] * count), pa.array([1.0] * count)
    same = {"source": pa.array(["one"] * count), "queue": names, "name": pa.array(["send"] * count)}
    counted = ("arrived", "started", "done", "failed", "retried", "lost", "cancelled", "dead", "expired", "routed")
    for day in range(_LAST_DAY - DAYS + 1, _LAST_DAY + 1):
        times = [day * DAY_MS + minute * 240_000 for minute in range(MINUTES) for _ in range(QUEUES)]
        at = pa.array(times, pa.timestamp("ms", tz="UTC"))
        flow = pa.table({"minute": at, **same, **dict.fromkeys(counted, ones), "busy_ms": numbers, "backlog": ones})
        lake.commit(lake.stage_arrow("gold.throughput", {day: flow}), instead=False)
        said = dict.fromkeys(("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"), numbers)
        told = {"grain": pa.array(["minute"] * count), "at": at, "measure": pa.array(["wait"] * count), "count": ones}
        lake.commit(lake.stage_arrow("gold.latency", {day: pa.table({**told, **same, **said})}), instead=False)


def reported(lake: Lake, folder: Path) -> dict[str, int]:
    told = report(lake, folder / "report.html")
    return {"queues": len(told.queues), "arrived": int(told.totals["arrived"])}


def foretold(lake: Lake, folder: Path) -> dict[str, int]:
    from relevo.pipeline.commands.build_gold import gold_forecast
    from relevo.pipeline.commands.renewal import Renewal
    from relevo.pipeline.session import session

    spark = session("local[2]", log=folder / "spark.log")
    gold_forecast(Renewal(lake, spark), wait_target_s=10.0)
    spark.stop()
    rows: Any = lake.arrow("gold.forecast")
    counted: Any = lake.arrow("gold.throughput", columns=["arrived"])
    return {"queues": pc.count_distinct(rows["queue"]).as_py(), "arrived": pc.sum(counted["arrived"]).as_py()}


def main(what: str, folder: Path) -> None:
    told = {"report": reported, "forecast": foretold}[what](Lake(folder / "lake"), folder)
    told["bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
