"""One Spark session for the whole test process: it takes longer to start than all its tests to run.

`tests/harness/turns.py` sees to it that one process runs all tests that use it (`--dist loadgroup`).
"""

from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relevo.pipeline.session import session
from tests.spark.standalone import StandaloneCluster

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For `make test`: a query of some hundred rows is over before the code that Spark would write and compile for it pays. Tests
that start a JVM of their own keep Spark's default, and in `make test-all` this session does too."""


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    spark = session(
        "local[2]",
        log=folder / "spark.log",
        settings={
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(folder / "events"),
            **(_INTERPRETED if request.config.getoption("sample") else {}),
        },
    )
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a real cluster's master."""
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster.master
    cluster.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for the session may have to wait for its start."""
    here = Path(__file__).parent
    for item in items:
        asks = here in item.path.parents and "spark" in getattr(item, "fixturenames", ())
        if asks and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(180))
