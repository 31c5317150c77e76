"""A job begins again when Spark's own Python processes failed it: a busy machine does not always start one in time."""

from __future__ import annotations

import logging
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


def _never() -> bool:
    return False


def _no_progress() -> int:
    return 0


@dataclass(frozen=True)
class Tries:
    """At most `limit` in a row, with pauses between them that begin with `pause_s` and double.

    >>> Tries(limit=3).run(lambda: 42, "the example")
    42
    """

    limit: int = 5
    pause_s: float = 2.0

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
        tried, reached = 0, progress()
        while True:
            try:
                return job()
            except (PySparkException, Py4JError) as error:
                reason = worker_failure(error)
                if reason is None or stop():
                    raise
                tried = tried + 1 if reached == progress() else 1
                reached = progress()
                if tried >= self.limit:
                    raise WorkersFailed(what=what, tries=tried, reason=reason) from error
                pause = self.pause_s * 2 ** (tried - 1)
                told = "%s: %s; try %d of %d failed; the next one begins in %.1f s"
                log.warning(told, what, reason, tried, self.limit, pause)
            _wait(pause, stop)


def _wait(seconds: float, stop: Callable[[], bool]) -> None:
    ends = time.monotonic() + seconds
    while not stop() and (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, _LOOKS_S))
