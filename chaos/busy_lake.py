"""An ingest, a build, compaction and vacuum on one lake at once, with kills: `python -m chaos.busy_lake --seconds 300`."""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from rich.console import Console

from chaos.scenarios.busy_lake import BusyLake, LakeStory
from relevo.pipeline.session import session
from tests.servers.server import Redis86


def wrong(story: LakeStory) -> list[str]:
    """What a run found wrong, one sentence each."""
    found = {
        f"{story.missing} of {story.events} events are not in bronze.events": story.missing,
        f"{story.doubled} rows of bronze.events are there twice or from nowhere": story.doubled,
        f"minutes of gold.throughput with wrong numbers: {story.wrong_minutes[:5]}": story.wrong_minutes,
        f"readers that read other rows than deltalake: {story.disagreeing}": story.disagreeing,
        f"old files that vacuum left: {story.old_files}": story.old_files,
        f"files that no table knows: {story.strays[:5]}": story.strays,
    }
    return [sentence for sentence, there in found.items() if there]


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos.busy_lake", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    chosen, console = parser.parse_args(), Console()
    console.print(f"{chosen.seconds:g} seconds of kills, seed {chosen.seed}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, Redis86() as server:
        folder = Path(name)
        spark = session("local[2]", log=folder / "spark.log", settings={"spark.driver.memory": "1g"})
        story = BusyLake(spark, server, folder, seed=chosen.seed).run(chosen.seconds)
        spark.stop()
    console.print(
        f"kills: {dict(story.kills)}; did: {dict(story.did)}; {story.merged} files merged, {story.deleted} deleted"
    )
    console.print(f"{story.events:,} events, {story.tables} tables read by five readers")
    for sentence in wrong(story):
        console.print(f"[red]{sentence}[/]", highlight=False)
    raise SystemExit(1 if wrong(story) else 0)


if __name__ == "__main__":
    main()
