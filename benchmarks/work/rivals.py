"""The rivals on PostgreSQL, each in an environment of its own, measured by rival.py through their public APIs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.work.contestants import CEILING
from benchmarks.work.stores import DurablePostgres
from tests.servers.cache import cache_folder

PACKAGES: dict[str, list[str]] = {
    "procrastinate": ["procrastinate==3.10.0", "psycopg[binary,pool]==3.3.8", "uvloop==0.23.0"],
    "pgqueuer": ["pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"],
    "oban": ["oban==0.7.0", "psycopg[binary,pool]==3.3.8", "uvloop==0.23.0"],
    CEILING: ["asyncpg==0.32.0", "uvloop==0.23.0"],
}
_DRIVER = Path(__file__).with_name("rival.py")
_SLOW_DRAIN = 1_500
"""Jobs for rivals that work off some hundreds a second: more would take minutes and say the same."""


class Rival:
    """One rival for a whole run; a fresh database each round."""

    def __init__(self, name: str, server: DurablePostgres) -> None:
        self.name = name
        self._server = server
        self._python = environment(name)
        self._databases = 0

    def measure(self, figures: Figures, scale: float) -> None:
        """One round: singles from 50 tasks, batches from 1 and from 4 (the better counts), a drain."""

        def sized(count: int) -> int:
            return max(500, int(count * scale) // 500 * 500)

        dsn = self._fresh()
        figures.note(self.name, "single", self._ask(dsn, "single", sized(5_000)))
        fast = self.name in ("pgqueuer", CEILING)
        for size in (100, 500):
            count = sized(30_000 if fast else 8_000)
            rates = [self._ask(dsn, "batch", count, size, tasks) for tasks in (1, 4)]
            figures.note(self.name, f"batch_{size}", max(rates))
        for size in (50, 500) if fast else (0,):
            count = sized(20_000) if fast else _SLOW_DRAIN if self.name == "procrastinate" else sized(4_000)
            dsn = self._fresh()
            self._ask(dsn, "batch", count, 500, 1)
            figures.note(self.name, f"drain_{size or 50}", self._ask(dsn, "drain", count, size))

    def _fresh(self) -> str:
        self._databases += 1
        database = f"{self.name.replace(' ', '_').lower()}{self._databases}"
        self._server.create(database)
        dsn = f"postgresql://postgres@127.0.0.1:{self._server.port}/{database}"
        self._ask(dsn, "install", 0)
        return dsn

    def _ask(self, dsn: str, case: str, count: int, size: int = 1, tasks: int = 4) -> float:
        asked = {"dsn": dsn, "case": case, "count": count, "size": size, "tasks": tasks}
        done = subprocess.run(
            [str(self._python), str(_DRIVER), self.name],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{case}: {done.stderr[-400:]}")
        return json.loads(done.stdout.strip().splitlines()[-1])["rate"]


def environment(name: str) -> Path:
    """The rival's own Python, made once; oban needs 3.12 or newer."""
    home = cache_folder() / "bench-venvs" / f"work-{name.replace(' ', '-').lower()}"
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
        if name and subprocess.run([name, "--version"], capture_output=True, check=False).returncode == 0:
            return name
    if sys.version_info >= (3, 12):
        return sys.executable
    raise RuntimeError("oban needs Python 3.12 or newer, and there is none on the PATH")
