"""How often a job begins again whose Python processes Spark could not start."""

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException

from relevo.errors import WorkersFailed
from relevo.pipeline.commands.tries import Tries


def failing(times: int) -> Callable[[], str]:
    """Fails this often for want of a Python worker, then works."""
    left = [times]

    def job() -> str:
        if left[0]:
            left[0] -= 1
            raise PySparkException("Python worker failed to connect back.")
        return "done"

    return job


def test_tries_on_a_machine_with_time_are_counted() -> None:
    with pytest.raises(WorkersFailed, match="3 times in a row"):
        Tries(limit=3, pause_s=0, busy=lambda: False).run(failing(3), "the ingest")


def test_tries_on_a_busy_machine_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Five of ten seconds each were given up while 30 programs shared two cores."""
    assert Tries(limit=3, pause_s=0, busy=lambda: True).run(failing(12), "the ingest") == "done"
    assert "the ingest: Python worker failed to connect back; try 12, on a busy machine, failed" in caplog.text


def test_a_machine_that_stays_busy_ends_the_tries_all_the_same() -> None:
    with pytest.raises(WorkersFailed, match="1 times in a row"):
        Tries(limit=3, pause_s=0, longest_s=0, busy=lambda: True).run(failing(2), "the ingest")
