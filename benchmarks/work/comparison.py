"""Two versions of relevo beside each other: both serve at the same time, and are measured in turns, a few seconds each."""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.work.served import Served
from benchmarks.work.stores import Store
from benchmarks.work.turns import FIRST, go, prepare
from benchmarks.work.version import Version

_CALM_S = 60.0
_LOOKS = 2


class Line(NamedTuple):
    """One case on one store: each number is of (base, head), the median of all rounds."""

    store: str
    case: str
    rates: tuple[float, float]
    cpu_us: tuple[float, float]
    database_cpu_us: tuple[float, float]
    memory_mb: tuple[float, float]
    pairs: list[float]
    """The ratio of each pair of turns by itself, head to base: how far it can be trusted."""
    cpu_pairs: list[float]
    """The same of CPU time."""

    @property
    def ratio(self) -> float:
        return self.rates[1] / self.rates[0]

    @property
    def cpu_ratio(self) -> float:
        """CPU time of the server and its database together, head to base: less is better."""
        base, head = (self.cpu_us[side] + self.database_cpu_us[side] for side in (0, 1))
        return head / base if base else 1.0


class Comparison:
    """Rounds of two versions on some stores."""

    def __init__(self, base: Version, head: Version, cases: list[str], *, seconds: float) -> None:
        self._versions = (base, head)
        self._cases = cases
        self._seconds = seconds
        self._waiting: dict[tuple[str, str], int] = defaultdict(lambda: FIRST)
        self._measured: dict[tuple[str, str], list[list[dict[str, float]]]] = defaultdict(list)

    def round(self, store: Store, number: int, tell: Callable[[str], None]) -> None:
        """Every case twice for each version, on fresh databases: first, second, second, first, so that none is ahead."""
        with contextlib.ExitStack() as stack:
            sides: list[Served] = []
            for version in self._versions:
                tell(f"{store.name}: {version.name} starts")
                sides.append(served := Served(store, version))
                stack.callback(served.close)
                served.warm()
            for case in self._cases:
                waiting = self._waiting[store.name, case]
                for look in range(_LOOKS):
                    both: list[dict[str, float]] = [{}, {}]
                    for side in (0, 1) if (number + look) % 2 == 0 else (1, 0):
                        tell(f"{store.name}: {case}, {self._versions[side].name}")
                        queue = f"{case}-{look}"
                        prepare(sides[side], case, queue, waiting=waiting)
                        for each in sides:  # neither is in the other's way
                            each.settled(_CALM_S)
                        both[side] = go(sides[side], case, queue, seconds=self._seconds, waiting=waiting)
                    self._measured[store.name, case].append(both)
                    self._waiting[store.name, case] = int(max(each["rate"] for each in both) * self._seconds)

    def lines(self) -> list[Line]:
        found: list[Line] = []
        for (store, case), rounds in self._measured.items():

            def medians(name: str, rounds: list[list[dict[str, float]]] = rounds) -> tuple[float, float]:
                base, head = (statistics.median(both[side][name] for both in rounds) for side in (0, 1))
                return base, head

            found.append(
                Line(
                    store,
                    case,
                    medians("rate"),
                    medians("cpu_us"),
                    medians("database_cpu_us"),
                    medians("memory_mb"),
                    [both[1]["rate"] / both[0]["rate"] for both in rounds],
                    [_cpu(both[1]) / _cpu(both[0]) for both in rounds],
                )
            )
        return found


def _cpu(measured: dict[str, float]) -> float:
    return measured["cpu_us"] + measured["database_cpu_us"]
