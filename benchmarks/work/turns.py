"""What can be measured in a few seconds on one server: a load, what waits for it beforehand, and how its queue is set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.work.served import Served

FIRST = 20_000
"""Messages that wait for the first drain of anybody, whose speed is not known yet."""
MOST = 300_000
_URGENT: list[dict[str, Any]] = [
    {"priority_tier": tier, "priority_score": score}
    for score in (3, 0, 9, 6)
    for tier in ("normal", "high", "low", "normal", "critical", "background")
]


@dataclass(frozen=True)
class Turn:
    """What one version is asked for at a time."""

    title: str
    load: str
    connections: int
    size: int = 1
    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    """More words for the load, and for the publishes that fill the queue before."""
    drains: bool = False
    """Messages have to wait in the queue before it begins."""
    queue: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings of its queue."""


TURNS = {
    "single": Turn("single publish, 50 clients", "single", 50),
    "batch_100": Turn("batches of 100, 4 clients", "batch", 4, 100),
    "batch_500": Turn("batches of 500, 4 clients", "batch", 4, 500),
    "batch_uuid_100": Turn("batches of 100, random keys", "batch", 4, 100, {"keys": "random"}),
    "batch_uuid_500": Turn("batches of 500, random keys", "batch", 4, 500, {"keys": "random"}),
    "batch_1kb_100": Turn("batches of 100, bodies of 1 kB", "batch", 4, 100, {"body_bytes": 1024}),
    "batch_1kb_500": Turn("batches of 500, bodies of 1 kB", "batch", 4, 500, {"body_bytes": 1024}),
    "claim_complete_50": Turn("claim and complete 50, 4 clients", "drain", 4, 50, drains=True),
    "claim_complete_500": Turn("claim and complete 500, 4 clients", "drain", 4, 500, drains=True),
    "settle_each_10": Turn("claim 10, complete each by itself, 50 clients", "each", 50, 10, drains=True),
    "settle_each_1": Turn("claim 1, complete 1, 50 clients", "each", 50, 1, drains=True),
    "settle_part": Turn("claim 50, complete them in 2 calls", "drain", 4, 50, {"calls": 2}, drains=True),
    "priorities_batch": Turn(
        "batches of 100 of all urgencies", "batch", 4, 100, {"attributes": _URGENT}, queue={"ordering": "priority"}
    ),
    "priorities_claim": Turn(
        "claim and complete 50 by urgency", "drain", 4, 50, {"attributes": _URGENT}, True, {"ordering": "priority"}
    ),
    "labels_batch": Turn(
        "batches of 100 with two labels",
        "batch",
        4,
        100,
        {"attributes": [{"labels": {"customer": f"c{n}", "kind": f"k{n % 7}"}} for n in range(100)]},
    ),
    "delays_batch": Turn("delayed, batches of 500", "batch", 4, 500, {"attributes": [{"delay_s": 3_600}]}),
    "retries": Turn(
        "claim 50, fail them, to be tried again at once",
        *("fail", 4, 50),
        drains=True,
        queue={"max_retries": 1000, "backoff_initial_s": 0, "backoff_jitter_s": 0},
    ),
}


def take(served: Served, name: str, *, seconds: float, waiting: int = FIRST) -> dict[str, Any]:
    """One turn, in a queue of its own."""
    prepare(served, name, name, waiting=waiting)
    served.settled()
    return go(served, name, name, seconds=seconds, waiting=waiting)


def prepare(served: Served, name: str, queue: str, *, waiting: int) -> None:
    """Makes the queue and fills it for a turn that drains it. Who is compared has as many waiting as the other."""
    turn = TURNS[name]
    served.queue(queue, **turn.queue)
    if turn.drains:
        served.load("batch", queue, connections=4, count=stocked(waiting), size=500, **turn.asked)


def go(served: Served, name: str, queue: str, *, seconds: float, waiting: int) -> dict[str, Any]:
    turn = TURNS[name]
    words: dict[str, Any] = {**turn.asked, "size": turn.size, "seconds": seconds}
    count = stocked(waiting) if turn.drains else MOST
    return served.load(turn.load, queue, connections=turn.connections, count=count, **words)


def stocked(waiting: int) -> int:
    """How many wait, in whole batches."""
    return min(max(waiting, FIRST), MOST) // 500 * 500
