"""A downtime of the agents, as the database sees it: all of them should have run long ago, and somebody comes back."""

import contextlib
import sqlite3
import time
from pathlib import Path

from tests.pace import limit
from tests.servers.process import wait_until

_LONG_AGO_MS = 2 * 86_400_000


def turn_back_the_beat(database: Path) -> None:
    """Makes every agent two days late, once all have run; and waits until somebody has caught up."""
    with contextlib.closing(sqlite3.connect(database, timeout=limit(20))) as tables:

        def all_started(since_ms: float) -> bool:
            times: list[int] = [
                at or 0 for (at,) in tables.execute("SELECT last_started_at FROM relevo_store_agent_runs")
            ]
            return len(times) >= 15 and min(times) > since_ms

        wait_until(lambda: all_started(0), "a run of every agent", timeout=40)
        with tables:
            tables.execute("UPDATE relevo_store_agent_runs SET last_started_at = last_started_at - ?", (_LONG_AGO_MS,))
        wait_until(lambda: all_started(time.time() * 1000 - _LONG_AGO_MS / 2), "agents that catch up", timeout=40)
