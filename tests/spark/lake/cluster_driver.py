"""The lake's jobs on a cluster: `python -m tests.spark.lake.cluster_driver URL QUEUES LAKE PAGE MASTER`."""

import json
import sys
from pathlib import Path

from relevo.pipeline.commands.build import build
from relevo.pipeline.commands.ingest import Ingest
from relevo.pipeline.commands.report import report
from relevo.pipeline.lake.lake import Lake
from tests.spark.standalone import executors, on_cluster


def main(url: str, queues: str, folder: str, page: str, master: str) -> None:
    """Tells as JSON what it saw."""
    lake = Lake(folder)
    spark = on_cluster(master, Path(page).with_name("spark.log"))
    taken = Ingest(lake, spark).once({"url": url, "queues": queues, "rowsPerPartition": "300"})
    built = build(lake, spark)
    totals = report(lake, Path(page)).totals
    seen = executors(spark)
    sys.stdout.write(json.dumps({"taken": taken, "broken": len(built.broken), "totals": totals, "seen": seen}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
