"""One server beside another: a short queue and a long one, with millions that are finished and without, one process and two.

Both have a database of their own on the same database server, and are measured in turns, so that whatever else the machine
does meets both alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.work import seeding
from benchmarks.work.notebook import Notebook
from benchmarks.work.served import Served

SHORT, LONG, FINISHED = 10_000, 1_000_000, 5_000_000
_LOOKS = 7
_CLAIMED = 4_000
_PATTERNS = 1_000


def pending(notes: Notebook) -> None:
    """Claims of 50, completed, from a queue that is kept at 10,000 messages, and from one that is kept at a million."""
    with _two(notes) as (short, long):
        sides = ((short, "claims_at_10000", SHORT), (long, "claims_at_1000000", max(notes.sized(LONG), SHORT)))
        for served, _, length in sides:
            notes.tell(f"filling a queue with {length:,}")
            served.queue("growing")
            served.load("batch", "growing", connections=4, count=length, size=500)
        for look in range(_LOOKS):
            for served, name, _ in sides if look % 2 == 0 else sides[::-1]:
                notes.tell(f"{name}, {look + 1} of {_LOOKS}")
                _calm(short, long)
                notes.note(name, served.load("drain", "growing", connections=4, count=_CLAIMED, size=50))
                served.load("batch", "growing", connections=4, count=_CLAIMED, size=500)


def finished(notes: Notebook) -> None:
    """Batches of 500, and claims of 50, beside five million messages that finished within the hour, and beside none."""
    with _two(notes) as (alone, beside):
        for served in (alone, beside):
            for queue in ("past", "now"):
                served.queue(queue)
            served.load("batch", "past", connections=4, count=_PATTERNS, size=500)
            served.load("drain", "past", connections=4, count=_PATTERNS, size=500)
        beside.settled()
        beside.stop()
        count = notes.sized(FINISHED)
        seeding.finished(
            beside.database_url, "past", count, ago_s=600, tell=lambda done: notes.tell(f"finished: {done}")
        )
        beside.start()
        for served in (alone, beside):
            served.load("batch", "now", connections=4, count=SHORT, size=500)  # the first ones warm it
            served.load("drain", "now", connections=4, count=SHORT, size=50)
        sides = ((alone, "beside_none"), (beside, "beside_5m"))
        for look in range(_LOOKS):
            for served, name in sides if look % 2 == 0 else sides[::-1]:
                notes.tell(f"{name}, {look + 1} of {_LOOKS}")
                _calm(alone, beside)
                notes.note(f"batch_{name}", served.load("batch", "now", connections=4, count=2 * SHORT, size=500))
                _calm(alone, beside)
                notes.note(f"claims_{name}", served.load("drain", "now", connections=4, count=2 * SHORT, size=50))


def two_processes(notes: Notebook) -> None:
    """Two `serve` processes with a queue each, against one with both: the same clients, half of them on each queue."""
    with _two(notes) as (one, first), contextlib.closing(Served(notes.store, beside=first)) as second:
        for served in (one, first):
            for queue in ("left", "right"):
                served.queue(queue)
        second.warm()
        sides = (("one_process", (one, one)), ("two_processes", (first, second)))
        for look in range(_LOOKS):
            for name, servers in sides if look % 2 == 0 else sides[::-1]:
                notes.tell(f"{name}, {look + 1} of {_LOOKS}")
                _calm(one, first)
                published = _at_once(notes, servers, "batch", connections=2, size=100)
                _calm(one, first)
                worked_off = _at_once(notes, servers, "drain", connections=2, size=50)
                _calm(one, first)
                notes.value(f"single_{name}", _at_once(notes, servers, "single", connections=25, size=1))
                notes.value(f"batch_{name}", published)
                notes.value(f"claims_{name}", worked_off)
                notes.value(f"lives_{name}", 1 / (1 / published + 1 / worked_off))
                notes.value(f"{name}_memory_mb", max(served.peak_mb() for served in servers))


def _at_once(notes: Notebook, servers: tuple[Served, Served], case: str, *, connections: int, size: int) -> float:
    """The same load on both queues at the same time; messages a second of both together."""

    def one(served: Served, queue: str) -> float:
        measured = served.load(case, queue, connections=connections, count=SHORT, size=size, seconds=notes.seconds)
        return measured["rate"]

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(one, servers, ("left", "right")))


def _calm(*servers: Served) -> None:
    for served in servers:
        served.settled()


@contextlib.contextmanager
def _two(notes: Notebook) -> Generator[tuple[Served, Served]]:
    with contextlib.ExitStack() as stack:
        pair: list[Served] = []
        for _ in range(2):
            pair.append(served := Served(notes.store))
            stack.callback(served.close)
            served.warm()
        yield pair[0], pair[1]
