"""The short form of `make chaos-lake`: everything that works on a lake at once, and kills."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos.busy_lake import wrong
from chaos.scenarios.busy_lake import BusyLake
from tests.conftest import Launch
from tests.servers.server import Redis86


@pytest.mark.whole  # two JVMs more; who gives way to whom is in test_delta.py
@pytest.mark.timeout(600)
def test_ingest_build_compaction_and_vacuum_at_once_with_kills_lose_and_double_nothing(
    spark: SparkSession, launch: Launch, tmp_path: Path
) -> None:
    story = BusyLake(spark, launch(Redis86), tmp_path, seed=1).run(seconds=30)
    assert wrong(story) == []
    assert story.events > 1_000
    assert story.kills.total() >= 1
    assert story.deleted > 0
