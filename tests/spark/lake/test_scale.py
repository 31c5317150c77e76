"""Builds of millions of events: the cost of an event stays what it is, a refresh costs what is new, memory stays bounded."""

import json
import sys
from pathlib import Path

import pytest

from tests.servers.child import Child
from tests.spark.lake.growth import Grown

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

FEW = 1_000_000


@pytest.mark.parametrize("many", [5_000_000, 20_000_000], ids=["5M", "20M"])
def test_millions_of_events_cost_what_one_million_does_and_a_refresh_a_tenth_of_a_build(
    many: int, tmp_path: Path
) -> None:
    command = (sys.executable, "-m", "tests.spark.lake.growth", tmp_path, str(FEW), str(many))
    found = Child.run(*command, timeout=1700)
    assert found.code == 0, found.err[-3000:]
    few, most = (Grown(**json.loads(line)) for line in found.out.splitlines())
    assert most.us_an_event <= few.us_an_event * 1.1, (few, most)
    assert most.refresh_share <= 0.10, most
    assert most.peak_bytes <= 4 * 10**9, most
