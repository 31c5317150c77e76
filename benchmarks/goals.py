"""What we want to reach, each as a ratio within one run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.roster import BASE
from benchmarks.tally import Tally

CEILING = "the server itself"
SLOTS_OF_5_MS = 20_000  # a hundred handlers of 5 ms each


class Goal(NamedTuple):
    """`case` of `who` against `their_case` of `rival`: at least `times` as good."""

    title: str
    case: str
    rival: str
    times: float
    their_case: str | None = None
    who: str = "relevo"

    def reached(self, tally: Tally) -> float | None:
        if self.rival == "arithmetic":
            done = tally.median(self.who, self.case)
            return None if done is None else done / SLOTS_OF_5_MS
        return tally.ratio(self.case, self.who, self.rival, their_case=self.their_case)


GOALS = (
    Goal("drain, events off, like for like", "drain", BASE, 8),
    Goal("drain, events off, against its best tuning", "drain", "chasquimq, tuned", 4),
    Goal("drain, share of the server's read-and-ack rate", "drain", CEILING, 0.8, "raw_drain"),
    Goal("drain, events on", "drain_events", BASE, 8),
    Goal("CPU of our process for a drained job", "cpu", BASE, 10),
    Goal("100 concurrent adds", "add_concurrent", BASE, 8),
    Goal("bulk of 500, awaited", "add_bulk_500", BASE, 2.5),
    Goal("bulk of 500, two in flight, share of raw XADD IDMP", "add_bulk_500_two", CEILING, 0.7, "raw_add_once"),
    Goal("single add", "add_single", BASE, 2),
    Goal("5 ms handlers, share of the arithmetic limit", "drain_5ms", "arithmetic", 0.8),
    Goal("latency p50", "latency_p50", BASE, 2),
    Goal("latency p99, no worse", "latency_p99", BASE, 1),
    Goal("retry storm", "retry_storm", BASE, 10),
    Goal("promotion of due jobs", "delayed", BASE, 5),
    Goal("drain on Redis 7, share of ours on Redis 8.6", "drain", "relevo", 0.6, who="relevo on Redis 7"),
    Goal("drain on Valkey, share of ours on Redis 8.6", "drain", "relevo", 0.6, who="relevo on Valkey"),
)


class Outcome(NamedTuple):
    """A goal and what came of it; `met` is None when this run did not measure it."""

    goal: Goal
    reached: float | None
    met: bool | None


def outcomes(tally: Tally) -> Iterator[Outcome]:
    for goal in GOALS:
        reached = goal.reached(tally)
        yield Outcome(goal, reached, None if reached is None else reached >= goal.times)
