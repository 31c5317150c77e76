"""What agents do: messages whose time has come can be claimed, and finished ones move to the archive."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.work import seeding
from benchmarks.work.notebook import Notebook
from benchmarks.work.served import Served

_DELAYED = 50_000
_ARCHIVED = 100_000
_PATTERNS = 1_000
_AHEAD_S = 2.0
_LONGEST_S = 120.0


def promotion(notes: Notebook) -> None:
    """How many messages a second can be claimed from the moment on that all of them wait for."""
    count = notes.sized(_DELAYED)
    with contextlib.closing(Served(notes.store)) as served:
        served.queue("later")
        began = time.monotonic()
        served.load("batch", "later", connections=4, count=count, size=500, attributes=[{"delay_s": 3_600}])
        takes_s = time.monotonic() - began
        served.queue("due")
        due_ms = int((time.time() + takes_s * 1.5 + _AHEAD_S) * 1000)
        notes.tell(f"{count:,} messages with one moment to wait for")
        served.load("batch", "due", connections=4, count=count, size=500, attributes=[{"visible_at": due_ms}])
        time.sleep(max(0.0, due_ms / 1000 - time.time()))
        notes.value("promotion", _rate(served, "due", count, due_ms))
        notes.value("promotion_memory_mb", served.peak_mb())


def _rate(served: Served, queue: str, count: int, due_ms: int) -> float:
    left = count
    while time.time() * 1000 < due_ms + _LONGEST_S * 1000:
        left = served.get(f"/v1/scopes/bench/queues/{queue}")["data"]["depth_delayed"]
        if left == 0:
            break
        time.sleep(0.02)
    return (count - left) / (time.time() - due_ms / 1000)


def archiver(notes: Notebook) -> None:
    """Rows a second of `message_archiver`, on messages that finished two hours ago, with nothing else to do."""
    count = notes.sized(_ARCHIVED)
    with ThreadPoolExecutor(1) as pool, contextlib.closing(Served(notes.store)) as served:
        served.queue("past")
        served.load("batch", "past", connections=4, count=_PATTERNS, size=500)
        served.load("drain", "past", connections=4, count=_PATTERNS, size=500)
        served.settled()
        served.stop()
        seeding.finished(served.database_url, "past", count, ago_s=7_200, tell=notes.tell)
        served.start()
        served.settled()
        notes.tell(f"archiving {count:,} rows")
        began = time.monotonic()
        running = pool.submit(served.post, "/v1/agents/message_archiver/run", {})
        try:
            run = running.result(timeout=_LONGEST_S)["data"]
            rate = run["last_items"] / run["last_duration_s"]
        except TimeoutError:  # what has arrived until then
            rate = seeding.rows_of(served.database_url, "relevo_archive") / (time.monotonic() - began)
        notes.value("archiver", rate)
        notes.value("archiver_memory_mb", served.peak_mb())
