"""Who is measured: a driver program in a virtual environment of its own, and the tasks it can do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DRIVERS = Path(__file__).parent / "drivers"

Options = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One run of a driver; it answers one or more cases."""

    name: str
    cases: tuple[str, ...]
    options: Options = field(default_factory=dict[str, Any])


def standard_tasks(**worker: Any) -> tuple[Task, ...]:
    """What relevo and chasquimq are asked alike."""
    extra = {"worker": worker} if worker else {}
    return (
        Task("add_single", ("add_single",)),
        Task("add_concurrent", ("add_concurrent",)),
        Task("add_bulk", ("add_bulk_50",), {"size": 50}),
        Task("add_bulk", ("add_bulk_500",), {"size": 500}),
        Task("add_bulk", ("add_bulk_500_two",), {"size": 500, "in_flight": 2}),
        Task("drain", ("drain", "cpu"), {"name": "drain", "cpu": "cpu", **extra}),
        Task("drain", ("drain_events", "cpu_events"), {"name": "drain_events", "cpu": "cpu_events", "events": True}),
        Task("drain", ("drain_results",), {"name": "drain_results", "results": True}),
        Task("drain", ("drain_5ms",), {"name": "drain_5ms", "pause_s": 0.005}),
        Task("delayed", ("delayed",)),
        Task("retry_storm", ("retry_storm",)),
        Task("latency", ("latency_p50", "latency_p99")),
        Task("memory", ("memory_idle",)),
    )


@dataclass(frozen=True)
class Contestant:
    """One library (or one way to use it). `packages` go into its venv; none means relevo's own."""

    name: str
    driver: str
    tasks: tuple[Task, ...]
    arguments: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    pinned_to: str | None = None
    """Cores the program may use, as `taskset` writes them."""

    def python(self, cache: Path) -> Path:
        if not self.packages:
            return Path(sys.executable)
        return cache / self.name.split(",")[0].replace(" ", "-") / "bin" / "python"

    def install(self, cache: Path) -> None:
        """Makes the venv once; a stamp tells what is in it."""
        if not self.packages:
            return
        home = self.python(cache).parent.parent
        stamp = home / "installed.txt"
        wanted = "\n".join(self.packages)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        venv.create(home, with_pip=True, clear=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *self.packages], check=True)
        stamp.write_text(wanted)

    def run(self, task: Task, url: str, jobs: int, cache: Path, *, timeout_s: float) -> dict[str, float]:
        """The numbers of one task; raises `RunFailed` with the driver's last words."""
        command = [str(self.python(cache)), str(DRIVERS / self.driver), *self.arguments]
        if self.pinned_to is not None:
            command = ["taskset", "-c", self.pinned_to, *command]
        asked = json.dumps({"task": task.name, "url": url, "jobs": jobs, "options": task.options})
        environment = os.environ | {"PYTHONWARNINGS": "ignore"}
        try:
            done = subprocess.run(
                command, input=asked, capture_output=True, text=True, timeout=timeout_s, check=True, env=environment
            )
            return json.loads(done.stdout.strip().splitlines()[-1])
        except subprocess.TimeoutExpired as error:
            raise RunFailed(self.name, task.name, f"not done after {timeout_s} s") from error
        except (subprocess.CalledProcessError, ValueError, IndexError) as error:
            words = getattr(error, "stderr", None) or str(error)
            raise RunFailed(self.name, task.name, words.strip()[-400:]) from error


class RunFailed(Exception):
    """A driver that did not answer."""

    def __init__(self, contestant: str, task: str, words: str) -> None:
        super().__init__(f"{contestant}: {task}: {words}")


CEILING = Contestant("the server itself", "ceiling.py", (Task("ceiling", ("xadd", "xadd_idmp", "read_ack")),))

RELEVO = Contestant("relevo", "chasqui.py", standard_tasks(), ("relevo",))

CHASQUIMQ = Contestant(
    "chasquimq 1.3.0", "chasqui.py", standard_tasks(), ("chasquimq",), ("chasquimq==1.3.0", "msgpack", "uvloop")
)

CHASQUIMQ_TUNED = Contestant(
    "chasquimq 1.3.0, tuned",
    "chasqui.py",
    (Task("drain", ("drain", "cpu"), {"name": "drain", "cpu": "cpu", "uvloop": True, "worker": {"read_count": 256}}),),
    ("chasquimq",),
    ("chasquimq==1.3.0", "msgpack", "uvloop"),
    pinned_to="1",
)

CONTESTANTS = (CEILING, RELEVO, CHASQUIMQ, CHASQUIMQ_TUNED)
