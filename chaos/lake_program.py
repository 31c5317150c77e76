"""One of those who work on a lake, in a process of its own: `python -m chaos.lake_program follow|build|upkeep <lake> <url>`.

Each does its work again and again until it is killed, and says a line each time: what it does, and numbers.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from relevo.pipeline.commands.build import build
from relevo.pipeline.commands.ingest import Ingest
from relevo.pipeline.commands.keep_up import keep_up
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.upkeep import compact
from relevo.pipeline.session import session

QUEUES = "emails,orders,media"
SMALL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


def follow(lake: Lake, folder: Path, url: str) -> None:
    spark = session("local[1]", log=folder / "follow.log", settings=SMALL)
    options = {"url": url, "queues": QUEUES, "source": "chaos"}
    Ingest(lake, spark, taken=lambda batch: _say("took", batch.rows)).follow(options, every_s=1)


def build_again_and_again(lake: Lake, folder: Path) -> None:
    spark = session("local[1]", log=folder / "build.log", settings=SMALL)
    while True:
        seen = lake.table("bronze.events").version
        built = build(lake, spark, upkeep=False)
        assert built.broken == (), built.broken
        _say("built", len(built.steps))
        _until_another_commit(lake, seen)


def upkeep(lake: Lake) -> None:
    """Merges sooner than a build would, so that there is always something to be merged."""
    while True:
        seen = lake.table("bronze.events").version
        yet = lake.changes("bronze.events", lake.taken("silver.events", "bronze.events")).added
        merged = compact(lake, "bronze.events", sparing=[file.path for file in yet], least=2).before
        merged += compact(lake, "silver.events", least=2).before
        kept = keep_up(lake)
        _say("kept", merged + kept.merged, kept.deleted)
        _until_another_commit(lake, seen)


def _until_another_commit(lake: Lake, seen: int) -> None:
    """Leaves the cores to the others while there is nothing new."""
    while lake.table("bronze.events").version == seen:
        time.sleep(0.2)


def _say(word: str, *numbers: int) -> None:
    sys.stdout.write(f"{word} {' '.join(map(str, numbers))}\n")
    sys.stdout.flush()


def main() -> None:
    what, where, url = sys.argv[1:]
    lake, folder = Lake(where), Path(where).parent
    if what == "follow":
        follow(lake, folder, url)
    elif what == "build":
        build_again_and_again(lake, folder)
    else:
        upkeep(lake)


if __name__ == "__main__":
    main()
