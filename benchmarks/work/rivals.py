"""The rivals on PostgreSQL, each in an environment of its own, measured by rival.py through their public APIs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
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
_FIRST, _MOST = 1_500, 200_000
"""Jobs of the first turn, and of any."""


class Rival:
    """One rival for a whole run; a fresh database for each turn."""

    def __init__(self, name: str, server: DurablePostgres) -> None:
        self.name = name
        self._server = server
        self._python = environment(name)
        self._databases = 0
        self._dsn = ""

    def measure(self, figures: Figures, case: str, *, seconds: float) -> None:
        """One case of ours, in whatever way it is fastest: singles from 50 tasks, batches from 1 and from 4, a drain."""
        if case == "single":
            self._note(figures, "single", seconds, 1, lambda count: self._ask("single", count))
        elif case == "claim_complete":
            for size in (50, 500) if self._fast else (0,):
                self._note(
                    figures, f"claim_complete_{size or 50}", seconds, 500, lambda count, n=size: self._drain(count, n)
                )
        else:
            body = 1024 if case == "batch_1kb" else 0
            for size in (100, 500):
                name = f"{case}_{size}"
                self._note(figures, name, seconds, size, lambda count, n=size: self._batch(count, n, body))

    def _note(self, figures: Figures, name: str, seconds: float, step: int, ask: Callable[[int], float]) -> None:
        """As many as fill the time, as the rounds before tell; the first takes twice, once to learn how fast it is."""
        rate = figures.median(self.name, name)
        if rate is None:
            self._begin_anew()
            rate = ask(_FIRST)
        self._begin_anew()
        figures.note(self.name, name, ask(min(max(int(rate * seconds), _FIRST), _MOST) // step * step))

    def _batch(self, count: int, size: int, body: int) -> float:
        return max(self._ask("batch", count, size, tasks, body) for tasks in (1, 4))

    def _drain(self, count: int, size: int) -> float:
        self._ask("batch", count, 500, 1)
        return self._ask("drain", count, size)

    @property
    def _fast(self) -> bool:
        """Whether it works off in batches."""
        return self.name in ("pgqueuer", CEILING)

    def _begin_anew(self) -> None:
        """With a database that has nothing in it but what the rival needs."""
        self._databases += 1
        database = f"{self.name.replace(' ', '_').lower()}{self._databases}"
        self._server.create(database)
        self._dsn = f"postgresql://postgres@127.0.0.1:{self._server.port}/{database}"
        self._ask("install", 0)

    def _ask(self, case: str, count: int, size: int = 1, tasks: int = 4, body: int = 0) -> float:
        asked = {"dsn": self._dsn, "case": case, "count": count, "size": size, "tasks": tasks, "body_bytes": body}
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
