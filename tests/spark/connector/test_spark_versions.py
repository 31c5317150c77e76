"""Every version of Spark that we say works: each in an environment of its own, with what `pip install relevo[spark]` brings."""

import os
import venv
from pathlib import Path

import pytest

from tests.servers.child import Child
from tests.servers.server import Server
from tests.spark.connector.filled import add_events
from tests.spark.connector.test_any_spark import COMPLETED, EVENTS, VISITOR, told

ROOT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("RELEVO_CACHE", Path.home() / ".cache" / "relevo"))


def environment(version: str) -> Path:
    """The Python of an environment with that Spark and this source tree, made once and kept in the cache."""
    folder = CACHE / f"spark-{version}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        parts = (f"pyspark[connect]~={version}.0", "setuptools")  # before 4.1 Spark asks for distutils
        done = Child.run(python, "-m", "pip", "install", "-q", *parts, "-e", f"{ROOT}[spark]", timeout=900)
        assert done.code == 0, done.err
        ready.touch()
    return python


@pytest.mark.scale
@pytest.mark.timeout(1800)  # the first time it downloads Spark
@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2", "4.3"])
def test_a_version_of_spark_reads_writes_and_follows_queues(
    version: str, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    python = str(environment(version))
    add_events(redis86.url, queue_name, EVENTS)
    seen = told(python, VISITOR, "plain", redis86.url, queue_name, str(tmp_path), PYSPARK_PYTHON=python)
    assert seen.pop("version").startswith(version)
    assert seen == {"events": EVENTS, "batch": COMPLETED, "stream": COMPLETED, "work": ["id"]}
    if version != "4.0":  # which has no sketches to add up
        lake = told(python, VISITOR, "built_here", redis86.url, queue_name, str(tmp_path), PYSPARK_PYTHON=python)
        assert lake == {"ingested": EVENTS, "broken": []}
