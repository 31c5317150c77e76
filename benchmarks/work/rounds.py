"""The run: in each round every server takes its turns and every rival its cases; then what is built up once for a case."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from benchmarks.figures import Figures
from benchmarks.work.cases import CASES, OLD, old, turns_of
from benchmarks.work.notebook import Notebook
from benchmarks.work.rivals import Rival
from benchmarks.work.served import Served
from benchmarks.work.stores import Store
from benchmarks.work.turns import take
from benchmarks.work.version import Version, this_checkout, version_of


class Step(NamedTuple):
    """What is done for one contestant at a time."""

    who: str
    what: str
    do: Callable[[], None]


class Plan(NamedTuple):
    """What a run is to be."""

    cases: list[str]
    rounds: int
    seconds: float
    scale: float


class Rounds:
    """Plans the steps of a run, and takes them."""

    def __init__(self, figures: Figures, stores: list[Store], rivals: list[Rival], plan: Plan) -> None:
        self._figures = figures
        self._stores = stores
        self._rivals = rivals
        self._plan = plan
        self._new, self._old = this_checkout(), self._older()
        self._tell: Callable[[str], None] = print

    def steps(self) -> list[Step]:
        """There and back again: who follows a heavy neighbour goes before it in the next round."""
        found: list[Step] = []
        for number in range(self._plan.rounds):
            these = [self._turns(store) for store in self._stores]
            these += [self._turns_of_old(store) for store in self._stores if self._old is not None]
            these += [self._of_rival(rival, case) for case in self._cases_of_rivals() for rival in self._rivals]
            found += [step for steps in (these if number % 2 == 0 else these[::-1]) for step in steps]
        return found + list(self._built())

    def take(self, step: Step, tell: Callable[[str], None]) -> None:
        """One contestant that fails must not take the figures of the others with it."""
        self._tell = lambda words: tell(f"{step.who}: {words}")
        self._tell(step.what)
        try:
            step.do()
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            self._figures.failures.append(f"{step.who}, {step.what}: {str(error)[-500:]}")

    def _turns(self, store: Store) -> list[Step]:
        return self._served(store, self._new, store.name, turns_of(self._plan.cases))

    def _turns_of_old(self, store: Store) -> list[Step]:
        assert self._old is not None
        return self._served(store, self._old, old(store.name), turns_of(self._plan.cases, only_old=True))

    def _served(self, store: Store, version: Version, who: str, turns: list[str]) -> list[Step]:
        if not turns:
            return []

        def do() -> None:
            notes = self._notebook(store, who)
            self._tell("starts")
            with contextlib.closing(Served(store, version)) as served:
                served.warm()
                for turn in turns:
                    self._tell(turn)
                    notes.note(turn, take(served, turn, seconds=notes.seconds, waiting=notes.waiting(turn)))

        return [Step(who, "turns", do)]

    def _of_rival(self, rival: Rival, case: str) -> list[Step]:
        return [
            Step(rival.name, case, lambda: rival.measure(self._figures, case, seconds=self._plan.seconds)),
        ]

    def _built(self) -> Iterator[Step]:
        for name in self._plan.cases:
            case = CASES[name]
            if case.built is not None:
                for store in self._stores:
                    if store.name not in case.not_on:
                        yield Step(store.name, name, partial(self._build, case.built, store))

    def _build(self, built: Callable[[Notebook], None], store: Store) -> None:
        built(self._notebook(store, store.name))

    def _cases_of_rivals(self) -> list[str]:
        """Theirs have no keys of our kind: random ones are compared with what they do without."""
        wanted = ["batch" if name == "batch_uuid" else name for name in self._plan.cases if CASES[name].rivals]
        return list(dict.fromkeys(wanted))

    def _older(self) -> Version | None:
        wanted = self._stores and any(CASES[name].old for name in self._plan.cases)
        return version_of(OLD) if wanted else None

    def _notebook(self, store: Store, who: str) -> Notebook:
        return Notebook(
            self._figures,
            store,
            seconds=self._plan.seconds,
            scale=self._plan.scale,
            tell=self._tell,
            who=who,
        )
