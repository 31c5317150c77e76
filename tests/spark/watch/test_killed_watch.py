"""A watch whose driver is killed with SIGKILL at any moment: every alert is one job of the queue, none is missing."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.child import Child
from tests.servers.server import EmbeddedValkey, Server
from tests.spark.watch.test_delivery import told
from tests.spark.watch.test_watch import LONG_AGO_S, happen
from tests.support.command_line import COMMAND

JOBS = 20
"""That are stuck in each round, and go on in the next one."""
ALERTS = "alerts"
ROUNDS = 4


class Watching:
    """`relevo pipeline watch` on one lake, as its user starts it."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder
        options = ("--lake", str(folder / "lake"), "--to-queue", ALERTS, "--stuck", "*=600", "--every", "0.5")
        self._command = (*COMMAND, "--redis-url", server.url, "pipeline", "watch", *options)

    def killed(self, signal: Callable[[], bool], said: str) -> None:
        """Runs until there is a signal, and dies with its JVM and the Python workers at any moment after it."""
        with self._started() as watch:
            watch.wait_until(signal, said, timeout=180)
            time.sleep(random.uniform(0, 1))  # there is nothing to wait for

    def once(self) -> None:
        with self._started("--once") as watch:
            assert watch.ended(timeout=180) == 0

    def planned(self) -> int:
        """Spark writes a file for a batch before it runs, and one when it is over."""
        return sum(1 for _ in (self._folder / "lake" / "_watch").glob("*/offsets/[0-9]*"))

    def told(self) -> list[tuple[str, str]]:
        """Job and state of each alert."""
        return [(document["job_id"], document["state"]) for _, document in told(self._server, ALERTS)]

    def _started(self, *more: str) -> Child:
        environment = {**os.environ, "TMPDIR": str(self._folder)}
        return Child(*self._command, *more, env=environment, group=True)


@pytest.mark.whole
@pytest.mark.timeout(900)
def test_a_watch_killed_at_any_moment_tells_every_alert_once(tmp_path: Path) -> None:
    with EmbeddedValkey() as server:
        watching, stuck = Watching(server, tmp_path), list[str]()
        for round_ in range(ROUNDS):
            for job in stuck[-JOBS:]:
                happen(server, "mail", "completed", job, duration_us=5)
            new = [f"{round_}-{n}" for n in range(JOBS)]
            for job in new:
                happen(server, "mail", "active", job, ago_s=LONG_AGO_S)
            stuck += new
            if round_ % 2:
                planned = watching.planned() + 1
                watching.killed(lambda planned=planned: watching.planned() >= planned, "a batch that is planned")
            else:
                alerts = {(job, "open") for job in new}
                watching.killed(lambda alerts=alerts: not alerts.isdisjoint(watching.told()), "an alert of this round")
        watching.once()
        expected = [*((job, "open") for job in stuck), *((job, "over") for job in stuck[:-JOBS])]
        assert Counter(watching.told()) == Counter(expected)
        watching.once()
        assert Counter(watching.told()) == Counter(expected)
