"""`python -m benchmarks.work_queues` (`make bench-work`): work queues over HTTP on three stores with real fsync, beside the
direct API of procrastinate, pgqueuer and oban on PostgreSQL, in interleaved rounds; then a table, the goals, and a JSON file.

Everything is on, as a user has it: keys, idempotency, outbox, audit, order index, agents. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.work.stores import DurablePostgres, Served, Store
from tests.servers.cache import cache_folder
from tests.servers.server import EmbeddedValkey

RESULTS = Path(__file__).parent / "results" / "work_queues.json"
RIVAL = Path(__file__).parent / "work" / "rival.py"
STORES = ("sqlite", "postgresql", "mariadb")
PACKAGES: dict[str, list[str]] = {
    "procrastinate": ["procrastinate==3.10.0", "psycopg[binary,pool]==3.3.8"],
    "pgqueuer": ["pgqueuer==1.6.0", "asyncpg==0.32.0"],
    "oban": ["oban==0.7.0", "psycopg[binary,pool]==3.3.8"],
    "plain": ["asyncpg==0.32.0"],
}
RIVALS = ("procrastinate", "pgqueuer", "oban")
CASES = ("single", "batch_100", "batch_500", "drain", "wake_p50_ms", "single_two_processes", "drain_10k", "drain_1m")


class Numbers:
    """What was measured, by contestant and case; a list of one for each round."""

    def __init__(self) -> None:
        self.all: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.failures: list[str] = []

    def note(self, who: str, case: str, value: float) -> None:
        self.all[who][case].append(value)

    def median(self, who: str, case: str) -> float | None:
        values = self.all.get(who, {}).get(case)
        return statistics.median(values) if values else None

    def best_rival(self, case: str) -> float | None:
        return max((value for name in RIVALS if (value := self.median(name, case)) is not None), default=None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.work_queues", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of messages of each case")
    parser.add_argument("--store", action="append", choices=STORES, default=[], help="only this one; may be repeated")
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument(
        "--growth", type=int, default=1_000_000, help="pending messages of the large claim case; 0 leaves it out"
    )
    parser.add_argument("--json", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    console, numbers = Console(), Numbers()
    stores = {name: Store(name) for name in (chosen.store or STORES)}
    rival_server = None if chosen.no_rivals else DurablePostgres()
    with EmbeddedValkey() as redis:
        try:
            for number in range(chosen.rounds):
                for name, store in stores.items():
                    console.print(f"round {number + 1}: relevo on {name}")
                    _try(numbers, name, lambda s=store, n=name: _relevo(numbers, n, s, redis.url, chosen.scale))
                for rival in () if rival_server is None else (*RIVALS, "plain"):
                    console.print(f"round {number + 1}: {rival}")
                    _try(numbers, rival, lambda r=rival, n=number: _rival(numbers, r, rival_server, n, chosen.scale))
            for name, store in stores.items() if chosen.growth else ():
                console.print(f"growth: relevo on {name}")
                _try(numbers, name, lambda s=store, n=name: _growth(numbers, n, s, redis.url, chosen.growth))
        finally:
            for store in stores.values():
                store.close()
            if rival_server is not None:
                rival_server.close()
    _tell(console, numbers, list(stores))
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(_as_dict(numbers, chosen.scale), indent=2) + "\n")
    console.print(f"all numbers: {chosen.json}")


def _try(numbers: Numbers, who: str, work: Any) -> None:
    try:
        work()
    except (RuntimeError, subprocess.SubprocessError) as error:
        numbers.failures.append(f"{who}: {str(error)[-500:]}")


def _relevo(numbers: Numbers, name: str, store: Store, redis_url: str, scale: float) -> None:
    def size(count: int) -> int:
        return max(500, int(count * scale) // 500 * 500)

    served = Served(store.fresh(), redis_url)
    try:
        for queue in ("single", "batch100", "batch500", "wake"):
            served.queue(queue)
        single = served.load("single", "single", connections=50, count=size(20_000))
        numbers.note(name, "single", single["rate"])
        numbers.note(name, "single_cpu_us", single["cpu_us"])
        for count, queue in ((100, "batch100"), (500, "batch500")):
            measured = served.load("batch", queue, connections=4, count=size(50_000), size=count)
            numbers.note(name, f"batch_{count}", measured["rate"])
        numbers.note(
            name, "drain", served.load("drain", "batch500", connections=4, count=size(50_000), size=50)["rate"]
        )
        numbers.note(name, "wake_p50_ms", served.load("wake", "wake", connections=2, count=200)["p50_ms"])
    finally:
        served.close()
    if name == "sqlite":
        return
    served = Served(store.fresh(), redis_url, processes=2)
    try:
        served.queue("single")
        two = served.load("single", "single", connections=50, count=size(20_000))
        numbers.note(name, "single_two_processes", two["rate"])
    finally:
        served.close()


def _growth(numbers: Numbers, name: str, store: Store, redis_url: str, pending: int) -> None:
    """The rate of claim and complete on a short and on a long queue."""
    served = Served(store.fresh(), redis_url)
    try:
        for queue, count, case in (("small", 10_000, "drain_10k"), ("large", pending, "drain_1m")):
            served.queue(queue)
            served.load("batch", queue, connections=4, count=count, size=500)
            measured = served.load("drain", queue, connections=4, count=8_000, size=50)
            numbers.note(name, case, measured["rate"])
    finally:
        served.close()


def _rival(numbers: Numbers, name: str, server: Any, round_number: int, scale: float) -> None:
    database = f"{name}{round_number}"
    server.create(database)
    dsn = f"postgresql://postgres@127.0.0.1:{server.port}/{database}"

    def ask(case: str, count: int = 0, size: int = 1, tasks: int = 4) -> float:
        asked = {"dsn": dsn, "case": case, "count": count, "size": size, "tasks": tasks}
        done = subprocess.run(
            [str(_environment(name)), str(RIVAL), name], input=json.dumps(asked), capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{case}: {done.stderr[-400:]}")
        return json.loads(done.stdout.strip().splitlines()[-1])["rate"]

    def size(count: int) -> int:
        return max(500, int(count * scale) // 500 * 500)

    ask("install")
    singles = size(3000)
    numbers.note(name, "single", ask("single", singles))
    batched = 0
    for each in (100, 500):
        count = size(10_000)
        numbers.note(name, f"batch_{each}", max(ask("batch", count, each, 1), ask("batch", count, each, 4)))
        batched += 2 * count
    if name == "procrastinate":  # some 400 a second: a drain of all would take minutes and say the same
        server_drop = f"{name}{round_number}d"
        server.create(server_drop)
        dsn = f"postgresql://postgres@127.0.0.1:{server.port}/{server_drop}"
        ask("install")
        ask("batch", 2000, 500, 1)
        numbers.note(name, "drain", ask("drain", 2000))
        return
    numbers.note(name, "drain", ask("drain", singles + batched))


def _environment(name: str) -> Path:
    """The rival's own Python, made once; oban needs 3.12 or newer."""
    home = cache_folder() / "bench-venvs" / f"work-{name}"
    python, stamp = home / "bin" / "python", home / "installed.txt"
    wanted = "\n".join(PACKAGES[name])
    if not (stamp.exists() and stamp.read_text() == wanted):
        base = _newer_python() if name == "oban" else sys.executable
        subprocess.run([base, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*pip, *PACKAGES[name]], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-400:])
        stamp.write_text(wanted)
    return python


def _newer_python() -> str:
    beside = Path(sys.base_prefix).parent.glob("3.1[2-9]*/bin/python3")  # where one tool keeps several versions
    for name in (*(shutil.which(f"python3.{minor}") for minor in (14, 13, 12)), *sorted(map(str, beside))):
        found = name
        if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    if sys.version_info >= (3, 12):
        return sys.executable
    raise RuntimeError("oban needs Python 3.12 or newer, and there is none on the PATH")


# --- what it means -----------------------------------------------------------------------------------------------------


def goals(numbers: Numbers, stores: list[str]) -> list[tuple[str, float, float | None, bool]]:
    """Title, wanted, reached, and whether less is better."""
    rows: list[tuple[str, float, float | None, bool]] = []

    def ratio(store: str, case: str) -> float | None:
        mine, theirs = numbers.median(store, case), numbers.best_rival(case)
        return mine / theirs if mine and theirs else None

    batch = {"sqlite": 1.2, "postgresql": 1.0, "mariadb": 0.7}
    drain = {"sqlite": 2.0, "postgresql": 1.0, "mariadb": 1.0}
    for store in stores:
        rows.append(
            (
                f"{store}: single durable publish over HTTP, 50 clients, times the best rival",
                2,
                ratio(store, "single"),
                False,
            )
        )
        best = max((each for case in ("batch_100", "batch_500") if (each := numbers.median(store, case))), default=None)
        rival = max((each for case in ("batch_100", "batch_500") if (each := numbers.best_rival(case))), default=None)
        rows.append(
            (
                f"{store}: batch publish, times the best rival",
                batch[store],
                best / rival if best and rival else None,
                False,
            )
        )
        rows.append(
            (f"{store}: claim 50 + complete 50, times the best rival", drain[store], ratio(store, "drain"), False)
        )
        small, large = numbers.median(store, "drain_10k"), numbers.median(store, "drain_1m")
        rows.append(
            (
                f"{store}: claims at 1M pending, share of those at 10k",
                0.8,
                large / small if small and large else None,
                False,
            )
        )
        rows.append((f"{store}: long poll woken, p50 ms", 5, numbers.median(store, "wake_p50_ms"), True))
        if store != "sqlite":
            one, two = numbers.median(store, "single"), numbers.median(store, "single_two_processes")
            rows.append((f"{store}: two processes, times one", 1, two / one if one and two else None, False))
    return rows


def _tell(console: Console, numbers: Numbers, stores: list[str]) -> None:
    people = [*stores, *RIVALS, "plain"]
    table = Table(title="medians; messages a second, or ms")
    table.add_column("case")
    for who in people:
        table.add_column(f"relevo, {who}" if who in stores else who, justify="right")
    for case in (*CASES, "single_cpu_us"):
        cells = [numbers.median(who, case) for who in people]
        if any(cells):
            table.add_row(
                case, *("-" if cell is None else f"{cell:,.1f}" if cell < 100 else f"{cell:,.0f}" for cell in cells)
            )
    console.print(table)
    told = Table(title="goals, as ratios in this run")
    for column in ("goal", "wanted", "reached", ""):
        told.add_column(column, justify="left" if column in ("goal", "") else "right")
    for title, wanted, reached, less in goals(numbers, stores):
        if reached is None:
            told.add_row(title, f"{wanted:g}", "-", "")
            continue
        met = reached <= wanted if less else reached >= wanted
        told.add_row(title, f"{wanted:g}", f"{reached:.2f}", "[green]met[/]" if met else "[yellow]not met[/]")
    console.print(told)
    for failure in numbers.failures:
        console.print(f"[red]{failure}[/]", markup=True)


def _as_dict(numbers: Numbers, scale: float) -> dict[str, Any]:
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "scale": scale,
        "rivals": PACKAGES,
        "numbers": numbers.all,
        "goals": [
            {"goal": title, "wanted": wanted, "reached": reached, "less_is_better": less}
            for title, wanted, reached, less in goals(numbers, [each for each in STORES if each in numbers.all])
        ],
        "failures": numbers.failures,
    }


if __name__ == "__main__":
    main()
