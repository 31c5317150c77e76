"""What is measured of relevo on one store: one round of all cases, and the rate of claims as a queue grows."""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.work.stores import Served, Store

GROWN_TO = (10_000, 100_000, 1_000_000)
_LOOKS = 5
_CLAIMED = 4_000


def one_round(figures: Figures, store: Store, redis_url: str, scale: float) -> None:
    """Publishes, drains and wakes on a fresh database by one process, then publishes by two."""

    def sized(count: int) -> int:
        return max(500, int(count * scale) // 500 * 500)

    name = store.name
    served = Served(store.fresh(), redis_url)
    try:
        for queue in ("warm", "single", "batch100", "batch500", "wake"):
            served.queue(queue)
        _warm(served)
        _note(figures, name, "single", served.load("single", "single", connections=50, count=sized(20_000)))
        for size in (100, 500):
            measured = served.load("batch", f"batch{size}", connections=4, count=sized(40_000), size=size)
            _note(figures, name, f"batch_{size}", measured)
        served.settled()
        for size, queue in ((50, "batch100"), (500, "batch500")):
            measured = served.load("drain", queue, connections=4, count=sized(30_000), size=size)
            _note(figures, name, f"drain_{size}", measured)
        served.settled()
        woken = served.load("wake", "wake", connections=2, count=200)
        figures.note(name, "wake_p50_ms", woken["p50_ms"])
        figures.note(name, "wake_p99_ms", woken["p99_ms"])
    finally:
        served.close()
    if name != "sqlite":
        _two_processes(figures, store, redis_url, sized(20_000))


def growth(figures: Figures, store: Store, redis_url: str, sizes: tuple[int, ...] = GROWN_TO) -> None:
    """Claims of 50, completed, from a queue that is kept at one length, then at a greater one."""
    served = Served(store.fresh(), redis_url)
    try:
        served.queue("growing")
        pending = 0
        for size in sizes:
            while pending < size:
                served.load("batch", "growing", connections=4, count=size - pending, size=500)
                pending = size
            for _ in range(_LOOKS):
                served.settled()
                measured = served.load("drain", "growing", connections=4, count=_CLAIMED, size=50)
                figures.note(store.name, f"claims_at_{size}", measured["rate"])
                served.load("batch", "growing", connections=4, count=_CLAIMED, size=500)
    finally:
        served.close()


def _two_processes(figures: Figures, store: Store, redis_url: str, count: int) -> None:
    served = Served(store.fresh(), redis_url, processes=2)
    try:
        served.queue("warm")
        served.queue("single")
        _warm(served)
        measured = served.load("single", "single", connections=50, count=count)
        _note(figures, store.name, "single_two_processes", measured)
    finally:
        served.close()


def _warm(served: Served) -> None:
    """Prepared statements, caches, connections: what a server that has run for a minute has."""
    served.load("single", "warm", connections=50, count=1_000)
    served.load("batch", "warm", connections=4, count=2_000, size=500)
    served.load("drain", "warm", connections=4, count=2_000, size=50)


def _note(figures: Figures, who: str, case: str, measured: dict[str, float]) -> None:
    figures.note(who, case, measured["rate"])
    figures.note(who, f"{case}_cpu_us", measured["cpu_us"])
    figures.note(who, f"{case}_load_cpu_us", measured["load_cpu_us"])
