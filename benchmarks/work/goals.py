"""What we want to reach, each as a ratio within one run (or milliseconds)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Figures
from benchmarks.outcome import Outcome
from benchmarks.work.contestants import DRAINED_IN, PUBLISHED_IN, best_rival

_BATCH = {"sqlite": 1.2, "postgresql": 1.0, "mariadb": 0.7}
_DRAIN = {"sqlite": 2.0, "postgresql": 1.0, "mariadb": 1.0}


def outcomes(figures: Figures, stores: list[str]) -> Iterator[Outcome]:
    for store in stores:
        single = _against_rivals(figures, store, ("single",))
        yield Outcome(store, "single", "single durable publish over HTTP, 50 clients, times the best rival", 2, single)
        batch = _against_rivals(figures, store, PUBLISHED_IN)
        yield Outcome(store, "batch", "batch publish, times the best rival", _BATCH[store], batch)
        drain = _against_rivals(figures, store, DRAINED_IN)
        yield Outcome(store, "drain", "claim + complete in batches, times the best rival", _DRAIN[store], drain)
        growth = _ratio(figures.median(store, "claims_at_1000000"), figures.median(store, "claims_at_10000"))
        yield Outcome(store, "growth", "claims at 1M pending, share of those at 10k", 0.8, growth)
        wake = figures.median(store, "wake_p50_ms")
        yield Outcome(store, "wake", "a long poll is woken, p50, ms", 5, wake, less_is_better=True)
        if store != "sqlite":
            two = _ratio(figures.median(store, "single_two_processes"), figures.median(store, "single"))
            yield Outcome(store, "processes", "single publish with two processes, times one", 1, two)


def _against_rivals(figures: Figures, store: str, cases: tuple[str, ...]) -> float | None:
    rival = best_rival(figures, cases)
    return None if rival is None else _ratio(figures.best(store, cases), rival[1])


def _ratio(mine: float | None, theirs: float | None) -> float | None:
    return mine / theirs if mine is not None and theirs else None
