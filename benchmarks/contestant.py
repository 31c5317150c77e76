"""Who is measured: a driver program, the virtual environment it runs in, and what it can be asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.case import TASKS, Task

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"
PINNED: dict[str, list[str]] = tomllib.loads((HERE / "rivals.toml").read_text())


class RunFailed(Exception):
    """A driver that did not answer."""

    def __init__(self, contestant: str, task: str, words: str) -> None:
        super().__init__(f"{contestant}: {task}: {words}")


@dataclass(frozen=True)
class Contestant:
    """One library, or one way to use it."""

    name: str
    driver: str
    can: tuple[str, ...]
    """Names of TASKS; what is not here shows as `-`."""
    home: str | None = None
    """Its list in rivals.toml; None runs where the harness runs."""
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    adds_per_s: int = 500
    """How fast it can surely add delayed jobs: they must all be there before the first is due."""
    server: str = "redis86"
    one_core: bool = False

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(self._own(TASKS[name]) for name in self.can)

    @property
    def version(self) -> str:
        return "this checkout" if self.home is None else ", ".join(PINNED[self.home])

    def available(self) -> bool:
        return not self.in_node or (shutil.which("npm") is not None and shutil.which("node") is not None)

    @property
    def in_node(self) -> bool:
        return self.driver.endswith(".mjs")

    def install(self, cache: Path) -> None:
        """Makes its environment once; a stamp tells what is in it."""
        if self.home is None:
            return
        home, wanted = cache / self.home, "\n".join(PINNED[self.home])
        stamp = home / "installed.txt"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        shutil.rmtree(home, ignore_errors=True)
        if self.in_node:
            home.mkdir(parents=True)
            command = ["npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--prefix", str(home)]
        else:
            venv.create(home, with_pip=True)
            command = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*command, *PINNED[self.home]], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunFailed(self.name, "install", done.stderr.strip()[-400:])
        stamp.write_text(wanted)

    def run(self, task: Task, url: str, jobs: int, cache: Path, *, timeout_s: float) -> dict[str, float]:
        """The measures of one task; raises `RunFailed` with the driver's last words."""
        asked = json.dumps({"task": task.name, "url": url, "jobs": jobs, "options": task.options})
        try:
            done = subprocess.run(
                self._command(cache),
                input=asked,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=True,
                env=os.environ | {"PYTHONWARNINGS": "ignore"},
            )
            return json.loads(done.stdout.strip().splitlines()[-1])
        except subprocess.TimeoutExpired as error:
            raise RunFailed(self.name, task.name, f"not done after {timeout_s} s") from error
        except (subprocess.CalledProcessError, ValueError, IndexError) as error:
            words = getattr(error, "stderr", None) or str(error)
            raise RunFailed(self.name, task.name, words.strip()[-400:]) from error

    def _command(self, cache: Path) -> list[str]:
        if self.in_node:
            program = ["node", str(DRIVERS / self.driver), str(cache / str(self.home))]
        else:
            python = sys.executable if self.home is None else str(cache / self.home / "bin" / "python")
            program = [python, str(DRIVERS / self.driver), *self.arguments]
        return ["taskset", "-c", _last_core(), *program] if self.one_core else program

    def _own(self, task: Task) -> Task:
        options = {**task.options, **self.options}
        answers = dict(task.answers)
        if task.name == "delayed":
            options["adds_per_s"] = self.adds_per_s
            task = replace(task, most=2 * self.adds_per_s)
        if "events" in options and "drain" not in self.can:  # it always writes them: this is its only plain drain
            answers["busy_mb"] = "memory_busy"
        return replace(task, options=options, answers=answers)


def _last_core() -> str:
    return str(max(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else "0"
