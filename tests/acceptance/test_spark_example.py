"""examples/score_queue.py as a reader runs it: it starts Spark, so it has a file of its own."""

import os
import sys

import pytest

from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.page import ROOT


@pytest.mark.whole
@pytest.mark.timeout(300)
def test_score_queue(valkey: Server) -> None:
    environment = {**os.environ, "RELEVO_REDIS_URL": valkey.url}
    done = Child.run(sys.executable, ROOT / "examples" / "score_queue.py", env=environment, timeout=240)
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "scored: 0.023",
        "scored: 0.690",
        "dead: relevo.errors.UnrecoverableError: the amount is no number",
    ]
