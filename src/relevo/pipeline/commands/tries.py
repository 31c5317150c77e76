"""A command begins again when Spark's own Python processes failed it: a busy machine does not always start one in time."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from relevo.errors import WorkersFailed
from relevo.pipeline.cause import worker_failure

log = logging.getLogger("relevo.pipeline")

T = TypeVar("T")

_LOOKS_S = 0.2
_LONGEST_PAUSE_S = 30.0


def _never() -> bool:
    return False


def _no_progress() -> int:
    return 0


def machine_is_busy() -> bool:
    """Whether more than twice as many threads wanted to run in the last minute as there are cores."""
    return os.getloadavg()[0] > 2 * (os.cpu_count() or 1)


@dataclass(frozen=True)
class Tries:
    """At most `limit` in a row, with pauses between them that begin with `pause_s` and double.

    Spark gives a Python process ten seconds to start, whatever else the machine has to do. So a try that fails while
    `busy()` does not count, for at most `longest_s`: what comes late is not broken.

    >>> Tries(limit=3).run(lambda: 42, "the example")
    42
    """

    limit: int = 5
    pause_s: float = 2.0
    longest_s: float = 1800.0
    busy: Callable[[], bool] = machine_is_busy

    def run(
        self,
        job: Callable[[], T],
        what: str,
        *,
        progress: Callable[[], object] = _no_progress,
        stop: Callable[[], bool] = _never,
    ) -> T:
        """What `job` returns. It must be one that can begin again; `what` names it.

        Tries that follow each other without `progress` count. An error that is not of a Python worker is raised at once, and
        so is any once `stop` says so.
        """
        tried, counted, reached, ends = 0, 0, progress(), time.monotonic() + self.longest_s
        while True:
            try:
                return job()
            except (PySparkException, Py4JError) as error:
                reason = worker_failure(error)
                if reason is None or stop():
                    raise
                if reached != progress():
                    tried, counted, reached, ends = 0, 0, progress(), time.monotonic() + self.longest_s
                tried += 1
                counted += not self.busy()
                if counted >= self.limit or time.monotonic() >= ends:
                    raise WorkersFailed(what=what, tries=tried, reason=reason) from error
                pause = min(self.pause_s * 2 ** (tried - 1), _LONGEST_PAUSE_S)
                which = f"{counted} of {self.limit}" if counted == tried else f"{tried}, on a busy machine,"
                log.warning("%s: %s; try %s failed; the next one begins in %.1f s", what, reason, which, pause)
            _wait(pause, stop)


def _wait(seconds: float, stop: Callable[[], bool]) -> None:
    ends = time.monotonic() + seconds
    while not stop() and (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, _LOOKS_S))
