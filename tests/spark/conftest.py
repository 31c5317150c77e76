"""Fixtures of the tests of Spark; the session itself is everybody's (tests/conftest.py)."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.spark.standalone import StandaloneCluster


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
