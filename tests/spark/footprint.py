"""What a Spark driver and everything it started take: processor time by program, and memory at its highest.

Read from /proc, so Linux only. Memory is resident memory added up: pages that forked Python workers share count for each, so
the truth is a little less.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_S = 0.5


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    program: str
    cpu_s: float
    cpu_of_dead_children_s: float
    bytes: int


def _process(pid: int) -> _Process | None:
    try:
        _, _, tail = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        commands = Path(f"/proc/{pid}/cmdline").read_bytes()
        # What it runs, not what it is called: a process that a thread has forked has that thread's name until it runs another.
        runs = Path(f"/proc/{pid}/exe").readlink().name
    except OSError:  # it has just ended
        return None
    program = "redis" if b"redis-server" in commands else runs
    facts = tail.split()
    own, dead = int(facts[11]) + int(facts[12]), int(facts[13]) + int(facts[14])
    return _Process(pid, int(facts[1]), program, own / _TICKS, dead / _TICKS, int(facts[21]) * _PAGE)


def family(root: int) -> list[_Process]:
    """A process and all below it."""
    listed = [_process(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    below: dict[int, list[_Process]] = defaultdict(list)
    found: list[_Process] = []
    for each in listed:
        if each is not None:
            below[each.parent].append(each)
            if each.pid == root:
                found.append(each)
    for one in found:  # grows while it is walked through
        # A JVM that has just forked, to run `chmod` for one, is there twice for a moment, with the same pages.
        found += [each for each in below[one.pid] if not (each.program == one.program == "java")]
    return found


def cpu_s(root: int | None = None) -> dict[str, float]:
    """Seconds of processor time so far: of the JVM, of Redis, and of Python (driver, workers, and what Spark plans with)."""
    spent: dict[str, float] = defaultdict(float)
    driver, *others = family(root or os.getpid())
    for one in (driver, *others):
        if one.program == "java":
            spent["JVM"] += one.cpu_s
            spent["Python"] += one.cpu_of_dead_children_s
        elif one.program.startswith("redis"):
            spent["Redis"] += one.cpu_s
        else:
            spent["Python"] += one.cpu_s + (0 if one is driver else one.cpu_of_dead_children_s)
    return dict(spent)


@dataclass
class Peak:
    """The most memory that a driver, its JVM and its workers had at once while this was open; servers do not count."""

    bytes: int = 0
    programs: dict[str, int] = field(default_factory=dict[str, int])
    """What each program had at that moment."""
    _over: threading.Event = field(default_factory=threading.Event)
    _watch: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._watch is not None:
            self._watch.join()

    def _look(self) -> None:
        while True:
            now: dict[str, int] = defaultdict(int)
            for one in family(os.getpid()):
                if not one.program.startswith("redis"):
                    now["JVM" if one.program == "java" else "Python"] += one.bytes
            if sum(now.values()) > self.bytes:
                self.bytes, self.programs = sum(now.values()), dict(now)
            if self._over.wait(_EVERY_S):
                return
