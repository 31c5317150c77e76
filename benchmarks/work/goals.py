"""What we want to reach, each as a ratio within one run (or milliseconds, rows a second, megabytes)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.figures import Figures
from benchmarks.outcome import Outcome
from benchmarks.work.cases import CASES, OLD, old
from benchmarks.work.contestants import DRAINED_IN, PUBLISHED_1KB_IN, PUBLISHED_IN, SINGLE, STORES, best_rival

MEMORY_MB = 150


class Goal(NamedTuple):
    """A goal: whose case it is, and how much of what is wanted on SQLite, PostgreSQL and MariaDB."""

    case: str
    name: str
    title: str
    wanted: tuple[float | None, float | None, float | None]
    reached: Callable[[Figures, str], float | None]
    less_is_better: bool = False


def _rivals(mine: tuple[str, ...], theirs: tuple[str, ...]) -> Callable[[Figures, str], float | None]:
    def reached(figures: Figures, store: str) -> float | None:
        rival = best_rival(figures, theirs)
        return None if rival is None else _ratio(figures.best(store, mine), rival[1])

    return reached


def _share(mine: str, of: str) -> Callable[[Figures, str], float | None]:
    return lambda figures, store: _ratio(figures.median(store, mine), figures.median(store, of))


def _old(case: str) -> Callable[[Figures, str], float | None]:
    return lambda figures, store: _ratio(figures.median(store, case), figures.median(old(store), case))


def _figure(case: str) -> Callable[[Figures, str], float | None]:
    return lambda figures, store: figures.median(store, case)


def _ratio(mine: float | None, theirs: float | None) -> float | None:
    return mine / theirs if mine is not None and theirs else None


_UUID_IN = ("batch_uuid_100", "batch_uuid_500")
GOALS = (
    Goal(
        *("batch", "batch", "batch publish, times the best rival"),
        *((1.7, 1.1, 1.0), _rivals(PUBLISHED_IN, PUBLISHED_IN)),
    ),
    Goal(
        *("batch_uuid", "batch_uuid", "batch publish with random keys, times the best rival"),
        *((1.0, 1.0, 0.9), _rivals(_UUID_IN, PUBLISHED_IN)),
    ),
    Goal(
        *("batch_1kb", "batch_1kb", "batch publish of 1 kB, times the best rival of the same size"),
        *((None, None, None), _rivals(PUBLISHED_1KB_IN, PUBLISHED_1KB_IN)),
    ),
    Goal(
        *("claim_complete", "claim_complete", "claim + complete, times the best rival"),
        *((4.0, 2.5, 1.5), _rivals(DRAINED_IN, DRAINED_IN)),
    ),
    Goal(
        *("single", "single", "single publish over HTTP, 50 clients, times the best rival"),
        *((3.5, 3.0, 2.5), _rivals(SINGLE, SINGLE)),
    ),
    Goal(
        *("settle_each", "settle_each_10", f"claim 10, complete each by itself, times relevo at {OLD}"),
        *((2.0, 3.0, 2.5), _old("settle_each_10")),
    ),
    Goal(
        *("settle_each", "settle_each_1", f"claim 1, complete 1, times relevo at {OLD}"),
        *((1.5, 2.5, 1.8), _old("settle_each_1")),
    ),
    Goal(
        *("pending", "pending", "claims at 1M pending, share of those at 10k"),
        *((0.9, 0.9, 0.9), _share("claims_at_1000000", "claims_at_10000")),
    ),
    Goal(
        *("finished", "finished_batch", "batch publish beside 5M finished, share of that beside none"),
        *((0.9, 0.9, 0.9), _share("batch_beside_5m", "batch_beside_none")),
    ),
    Goal(
        *("finished", "finished_claims", "claims beside 5M finished, share of those beside none"),
        *((0.9, 0.9, 0.9), _share("claims_beside_5m", "claims_beside_none")),
    ),
    Goal(
        *("two_processes", "two_processes", "two processes on two queues, publish and work off, times one"),
        *((None, 1.2, 1.0), _share("lives_two_processes", "lives_one_process")),
    ),
    Goal(
        *("labels", "labels_few", "claim by a label that few have at 300k pending, p95, ms"),
        *((20, 20, 20), _figure("claim_label_few_p95_ms"), True),
    ),
    Goal(
        *("labels", "labels_many", "claim by a label that many have at 300k pending, p95, ms"),
        *((20, 20, 20), _figure("claim_label_many_p95_ms"), True),
    ),
    Goal(*("wake", "wake", "a long poll is woken, p50, ms"), *((5, 5, 5), _figure("wake_p50_ms"), True)),
    Goal(
        *("lists", "lists", "the slowest list at 1M live and 5M archived, p95, ms"),
        *((100, 100, 100), _figure("lists_p95_ms"), True),
    ),
    Goal(
        *("archiver", "archiver", "rows a second of message_archiver"),
        *((20_000, 20_000, 20_000), _figure("archiver")),
    ),
)


def outcomes(figures: Figures, stores: list[str], cases: list[str] | None = None) -> Iterator[Outcome]:
    """What came of the goals of some cases, of all unless told; of memory over all that were measured."""
    for store in stores:
        for goal in GOALS:
            wanted = goal.wanted[STORES.index(store)]
            if store in CASES[goal.case].not_on or (cases is not None and goal.case not in cases):
                continue
            reached = goal.reached(figures, store)
            yield Outcome(store, goal.name, goal.title, wanted, reached, goal.less_is_better)
        yield Outcome(store, "memory", "memory of serve, its highest, MB", MEMORY_MB, memory(figures, store), True)


def memory(figures: Figures, store: str) -> float | None:
    """The highest median of all cases."""
    found = [figures.median(store, case) for case in figures.all.get(store, {}) if case.endswith("_memory_mb")]
    return max((value for value in found if value is not None), default=None)
