"""Deals tests out to processes: heavy ones take turns, light ones fill the gaps, and what shares something stays together.

It stands in for pytest-xdist's schedulers (`--dist loadgroup`), which cannot go on after a process has died: pytest-xdist runs
a test only once it knows the next one, and its load schedulers give the process that takes the place of a dead one a single
group. With one test in it, that process waits for ever for its next test, and the run with it. Here whoever holds a test it
cannot begin is seen to after every event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.harness.needs import CAPACITY, LIGHT, Needs, needs_of

_AHEAD = 2
"""Tests a process holds: the one it runs, and the next, without which it would not begin."""
_AHEAD_LIGHT = 4
"""As above for light ones, which are over before the answer to "what next?" is back."""


class Process(Protocol):
    """What is used of pytest-xdist's `WorkerController`."""

    gateway: Any

    @property
    def shutting_down(self) -> bool: ...

    def send_runtest_some(self, indices: Sequence[int]) -> None: ...

    def shutdown(self) -> None: ...


class Unit:
    """Tests that have to run in one process, in their order; most have one test."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.weight = LIGHT
        self.waiting: deque[str] = deque()
        self.process: Process | None = None
        self.ready = False


class Turns:
    """The scheduler. `collection_differs(first, other)` is told when two processes have found different tests."""

    def __init__(
        self,
        processes: int,
        *,
        needs: Callable[[str], Needs] = needs_of,
        capacity: int = CAPACITY,
        collection_differs: Callable[[Process, Process], None],
    ) -> None:
        self._expected = processes
        self._needs = needs
        self._capacity = capacity
        self._collection_differs = collection_differs
        self._order: list[str] = []
        self._tests: dict[str, Needs] = {}
        self._indexes: dict[Process, dict[str, int]] = {}
        self._held: dict[Process, list[str]] = {}
        self._units: dict[str, Unit] = {}
        self._ready: dict[int, deque[Unit]] = {}
        self._first: Process | None = None
        self._begun = False
        self._waiting = 0

    @property
    def nodes(self) -> list[Process]:
        return list(self._held)

    @property
    def collection_is_completed(self) -> bool:
        return self._begun or len(self._indexes) >= self._expected

    @property
    def tests_finished(self) -> bool:
        """Whether nothing is left to deal out: the processes are then told to end, and run what they still hold."""
        return self._begun and not self._waiting and all(len(held) < _AHEAD for held in self._held.values())

    @property
    def has_pending(self) -> bool:
        return self._waiting > 0 or any(self._held.values())

    def add_node(self, node: Process) -> None:
        self._held[node] = []

    def add_node_collection(self, node: Process, collection: Sequence[str]) -> None:
        indexes = {nodeid: index for index, nodeid in enumerate(collection)}
        if self._first is None:
            self._first = node
            self._order = list(collection)
            self._tests = {nodeid: self._needs(nodeid) for nodeid in collection}
        elif indexes.keys() != self._tests.keys():
            # It runs nothing: a test it does not know cannot be asked of it, and the report is red already.
            self._collection_differs(self._first, node)
            del self._held[node]
            self._expected -= 1
            node.shutdown()
            return
        self._indexes[node] = indexes

    def schedule(self) -> None:
        if not self._begun:
            self._begun = True
            for nodeid in self._order:
                self._put_back(nodeid, last=True)
        self._deal()

    def mark_test_complete(self, node: Process, item_index: int, duration: float = 0) -> None:
        held = self._held[node]
        done = next(nodeid for nodeid in held if self._indexes[node][nodeid] == item_index)
        held.remove(done)
        self._leave(self._tests[done].group)
        self._deal()

    def mark_test_pending(self, item: str) -> None:
        self._put_back(item)
        self._deal()

    def remove_pending_tests_from_node(self, node: Process, indices: Sequence[int]) -> None:
        raise AssertionError("tests are never taken back from a process that lives")

    def remove_node(self, node: Process) -> str | None:
        """Forgets a process that has ended. What it held and had not begun goes to others; the test it ran is returned."""
        held = self._held.pop(node)
        began = len(held) >= _AHEAD or (bool(held) and node.shutting_down)
        running = held.pop(0) if began else None
        for unit in self._units.values():
            if unit.process is node:
                unit.process = None
                if unit.waiting:
                    self._make_ready(unit)
        for nodeid in reversed(held):
            self._put_back(nodeid)
        if self._begun:
            self._deal()
        return running

    def weight_held(self, node: Process) -> int:
        """The heaviest of what a process holds: it runs one of them at a time."""
        return max((self._tests[nodeid].weight for nodeid in self._held[node]), default=LIGHT)

    def _deal(self) -> None:
        open_to_more = [node for node in self._held if node in self._indexes and not node.shutting_down]
        for node in open_to_more:
            while self._has_room(node) and (unit := self._fitting(node)) is not None:
                self._give(node, unit)
        stuck = [node for node in open_to_more if self._held[node]]
        if self._waiting and stuck and not any(self._runs(node) for node in self._held):
            # Everybody holds one test and none of the rest fits beside them: what is too heavy goes behind the heaviest.
            node = max(stuck, key=self.weight_held)
            self._give(node, next(unit for units in self._ready.values() for unit in units))

    def _runs(self, node: Process) -> bool:
        return len(self._held[node]) >= _AHEAD or node.shutting_down

    def _has_room(self, node: Process) -> bool:
        return len(self._held[node]) < (_AHEAD_LIGHT if self.weight_held(node) == LIGHT else _AHEAD)

    def _fitting(self, node: Process) -> Unit | None:
        """What this process may take: more of what it has begun, else the heaviest that fits beside what others hold."""
        for nodeid in reversed(self._held[node]):
            unit = self._units[self._tests[nodeid].group]
            if unit.process is node and unit.waiting:
                return unit
        others = sum(self.weight_held(other) for other in self._held if other is not node)
        mine = self.weight_held(node)
        for weight in sorted(self._ready, reverse=True):
            fits = weight <= mine or others == 0 or others + weight <= self._capacity
            if fits and self._ready[weight]:
                return self._ready[weight][0]
        return None

    def _give(self, node: Process, unit: Unit) -> None:
        if unit.ready:
            self._ready[unit.weight].remove(unit)
            unit.ready = False
        unit.process = node
        nodeid = unit.waiting.popleft()
        self._waiting -= 1
        self._held[node].append(nodeid)
        node.send_runtest_some([self._indexes[node][nodeid]])

    def _leave(self, group: str) -> None:
        unit = self._units[group]
        if not unit.waiting and not any(
            self._tests[held].group == group for each in self._held.values() for held in each
        ):
            del self._units[group]

    def _put_back(self, nodeid: str, *, last: bool = False) -> None:
        needs = self._tests[nodeid]
        unit = self._units.get(needs.group)
        if unit is None:
            unit = self._units[needs.group] = Unit(needs.group)
        self._waiting += 1
        if last:
            unit.waiting.append(nodeid)
        else:
            unit.waiting.appendleft(nodeid)
        if unit.ready and needs.weight > unit.weight:
            self._ready[unit.weight].remove(unit)
            unit.ready = False
        unit.weight = max(unit.weight, needs.weight)
        if unit.process is None:
            self._make_ready(unit, last=last)

    def _make_ready(self, unit: Unit, *, last: bool = False) -> None:
        if unit.ready:
            return
        unit.ready = True
        queue = self._ready.setdefault(unit.weight, deque())
        if last:
            queue.append(unit)
        else:
            queue.appendleft(unit)
