"""Which servers and databases a test runs on in `make test`: a sample of the product that `make test-all` runs whole.

Redis 7 and Valkey take the same branches of relevo everywhere, Redis 8.6 and Cluster the other ones. One of each pair, picked
by the test's name, meets every branch in each test, and each file still meets every server. The pick is a hash of names: it is
the same on every machine and in every run, and a new test changes nobody else's.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

BACKENDS = ("redis86", "redis7", "valkey", "cluster")
STORES = ("sqlite", "postgres", "mariadb")

_PARAMETERS = ("lane", "backend", "server", "store", "kind")
"""Names of the parameters that say where a test runs."""

_BY_PAIRS = (("redis7", "valkey"), ("redis86", "cluster"))
_WORK_DEFAULTS = (("sqlite-alone",), ("postgres-sql", "mariadb-index"))
"""How relevo claims by itself on each database: the embedded one, and one of the servers."""
_WORK_PATHS = (
    ("sqlite-alone", "sqlite-sql"),
    ("postgres-alone", "postgres-sql", "mariadb-alone", "mariadb-sql"),
    ("sqlite-index", "postgres-index", "mariadb-index", "sqlite-cluster"),
)
"""For files about how claims are made: by SQL on the embedded database and on a server, and by the index."""

_BY_STORE = ("tests/agents/", "tests/routing/", "tests/people/", "tests/audit/")


class Rule(NamedTuple):
    """One of each of `pick` for a test; somewhere in the file every one of `meet`."""

    pick: tuple[tuple[str, ...], ...]
    meet: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where an item runs, and the name of its test without that."""

    at: str
    test: str


class Sample:
    """Deselects what the sample leaves out; with a `backend`, all that does not run on that server."""

    def __init__(self, backend: str | None = None) -> None:
        self._backend = backend

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = set(map(id, on_backend(items, self._backend) if self._backend else sampled(items)))
        left_out = [item for item in items if id(item) not in chosen]
        items[:] = [item for item in items if id(item) in chosen]
        config.hook.pytest_deselected(items=left_out)


def on_backend(items: Sequence[pytest.Item], backend: str) -> list[pytest.Item]:
    return [item for item in items if (place := place_of(item)) is not None and place.at == backend]


def sampled(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """What is kept of these items: all that run in one place only, and the picked ones of each test that runs in several.
    What is marked `whole` is left to `make test-all`."""
    kept: list[pytest.Item] = []
    files: dict[str, dict[str, dict[str, pytest.Item]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        place = place_of(item)
        if item.get_closest_marker("whole") is not None:
            continue
        if place is None:
            kept.append(item)
        else:
            files[file_of(item)][place.test][place.at] = item
    for file, tests in files.items():
        for test, at in chosen(file, {test: list(places) for test, places in tests.items()}, refusals(tests)):
            kept.append(tests[test][at])
    return kept


def chosen(file: str, tests: Mapping[str, Sequence[str]], refused: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Pairs of a test of this file and where it runs; `tests` tells for each where it can."""
    once = set(refused)
    picked: list[tuple[str, str]] = []
    meet: set[str] = set()
    for test, places in tests.items():
        rule = rule_of(file, places)
        if rule is None:
            picked.extend((test, at) for at in places)
            continue
        groups = (tuple(places),) if test in once else rule.pick
        for group in groups:
            possible = [at for at in group if at in places]
            if possible:
                picked.append((test, first(test, possible)))
        if not any(set(group) & set(places) for group in groups):
            picked.extend((test, at) for at in places)  # the test says itself where it runs, and it is nowhere usual
        meet.update(set(rule.meet) & set(places))
    unmet = sorted(meet - {at for _, at in picked})
    return picked + [(first(at, [test for test, places in tests.items() if at in places]), at) for at in unmet]


def rule_of(file: str, places: Sequence[str]) -> Rule | None:
    if file.startswith("tests/work/"):
        pick = _WORK_PATHS if names_the_index(file) else _WORK_DEFAULTS
        return Rule(pick, sum(pick, ()))
    if file.startswith(_BY_STORE):
        return Rule((STORES,), STORES)
    if file.startswith("tests/outbox/"):
        return Rule(tuple(tuple(at for at in places if at.startswith(store)) for store in STORES), tuple(places))
    if not set(places) <= set(BACKENDS):
        return None
    if file.startswith("tests/acceptance/"):
        return Rule((("redis86", "redis7", "valkey"),), BACKENDS)
    return Rule(_BY_PAIRS, BACKENDS)


def first(name: str, choices: Iterable[str]) -> str:
    """The same choice for the same name, also when others are added or taken away."""
    return min(choices, key=lambda choice: hashlib.sha256(f"{name}|{choice}".encode()).digest())


def refusals(tests: dict[str, dict[str, pytest.Item]]) -> list[str]:
    """Tests of what is refused before any server hears of it: one place is enough."""
    return [
        test for test, places in tests.items() if any(item.get_closest_marker("refusal") for item in places.values())
    ]


def place_of(item: pytest.Item) -> Place | None:
    """Where an item runs, when that is one of several places."""
    callspec: Any = getattr(item, "callspec", None)
    if callspec is None:
        return None
    for name in _PARAMETERS:
        if name in callspec.params:
            value = callspec.params[name]
            at: Any = getattr(value, "name", None) if inspect.isclass(value) else value
            if isinstance(at, str) and (at in BACKENDS or at.partition("-")[0] in STORES):
                before, _, parameters = item.nodeid.partition("[")
                return Place(at, f"{before}[{parameters.replace(at, '', 1)}")
    return None


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@cache
def names_the_index(file: str) -> bool:
    return "index" in (Path(__file__).parents[2] / file).read_text()
