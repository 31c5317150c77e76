"""Takes what happened into a lake and makes a page of it, in a process of its own: its JVM goes when it goes.

`RELEVO_REDIS_URL=… python -m relevo.demo.chronicler QUEUES LAKE PAGE` prints a JSON object a line: where it is, and at the end
what the page says of each queue. Where Spark cannot run here it says why, and that is no failure.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from relevo.errors import DependencyMissing, JavaMissing, SparkNotStarted
from relevo.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relevo.pipeline.commands.progress import Step


def main() -> None:
    queues, folder, page = sys.argv[1:]
    try:
        spark = session(app="relevo demo", settings={"spark.sql.shuffle.partitions": "2"})
    except (DependencyMissing, JavaMissing, SparkNotStarted) as error:
        _say(cannot=" ".join(str(error).split()))
        return
    try:
        _chronicle(spark, queues, folder, Path(page))
    finally:
        spark.stop()


def _chronicle(spark: SparkSession, queues: str, folder: str, page: Path) -> None:
    from relevo.pipeline.commands.build import BUILT, build
    from relevo.pipeline.commands.ingest import Ingest
    from relevo.pipeline.commands.report import report
    from relevo.pipeline.lake.lake import Lake
    from relevo.pipeline.report.figures import figures

    lake = Lake(folder)
    _say(news="Spark runs, without a server of its own")
    taken = Ingest(lake, spark).once({"queues": queues})
    _say(news=f"{_count(taken)} events are in bronze, each once")
    built = build(lake, spark, tell=_table_by_table(len(BUILT)), upkeep=False)
    told = report(lake, page, title="What the demo did")
    done = {queue: int(figures(lake, queues=[queue]).totals["done"]) for queue in told.queues}
    _say(taken=taken, broken=[step.table for step in built.broken], done=done, page=str(page))


def _table_by_table(number: int) -> Callable[[Step], None]:
    made = 0

    def tell(step: Step) -> None:
        nonlocal made
        if step.state != "began":
            made += 1
        elif step.table.startswith(("silver", "gold")):
            _say(news=f"{step.table} is made ({made} of {number} tables are there)")

    return tell


def _say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")


if __name__ == "__main__":
    main()
