"""What a job costs as things grow: jobs waiting, worker processes, queues in one worker, payloads, delayed jobs, schedules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.machine import describe
from benchmarks.points import Point, Points
from benchmarks.rounds import SETTINGS
from tests.servers.server import Redis86

DRIVER = Path(__file__).parent / "drivers" / "growth_driver.py"
TIMEOUT_S = 120.0

SIZES: dict[str, tuple[int, ...]] = {
    "waiting": (10_000, 100_000, 1_000_000, 5_000_000),
    "processes": (1, 2, 4),
    "queues": (1, 10, 100, 1_000),
    "payload": (100, 1_000, 10_000, 100_000),
    "delayed": (10_000, 100_000, 1_000_000),
    "schedules": (10, 100, 1_000, 10_000),
}
COUNTED = ("processes", "queues", "payload")  # sizes that stay when everything else is scaled down


class GrowthFailed(Exception):
    """A program of a growth run that did not answer."""


class Growth:
    """Runs each line from its smallest size to its largest."""

    def __init__(self, console: Console, *, scale: float, only: list[str]) -> None:
        self._console = console
        self._scale = scale
        self._lines = [line for line in SIZES if not only or line in only]
        self.points = Points(machine=describe())

    def run(self) -> Points:
        total = sum(len(SIZES[line]) for line in self._lines)
        with Redis86(settings=SETTINGS) as self._server, Progress(console=self._console) as progress:
            self.points.machine["redis86"] = f"Redis {Redis86.binary().text}, loopback, no persistence"
            bar = progress.add_task("growth", total=total)
            for line in self._lines:
                self._server.flush()
                for size in SIZES[line]:
                    scaled = size if line in COUNTED else max(10, int(size * self._scale))
                    progress.update(bar, description=f"{line}: {scaled:,}")
                    self._measure(line, scaled)
                    progress.advance(bar)
        return self.points

    def _measure(self, line: str, size: int) -> None:
        measure: Callable[[str, int], None] = self._processes if line == "processes" else self._driven
        try:
            measure(line, size)
        except GrowthFailed as failure:
            self.points.failures.append(f"{line} at {size:,}: {failure}")

    def _driven(self, line: str, size: int) -> None:
        """A driver of one process; jobs waiting grow from the last point, everything else starts with an empty server."""
        if line != "waiting":
            self._server.flush()
        answer = _ended(self._start(line, size))
        for what, cost in answer.items():
            self._note(line, size, what, cost)

    def _processes(self, line: str, size: int) -> None:
        """Several programs drain one queue; the time runs from the first job to the last of all of them."""
        self._server.flush()
        jobs = self._jobs(400_000)
        _ended(self._start("fill_paused", jobs))
        programs = [self._start("share", jobs) for _ in range(size)]
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()  # "ready"; the queue is paused until all are
        before = self._cpu_s()
        _ended(self._start("resume", jobs))
        answers = [_ended(program) for program in programs]
        server_s = self._cpu_s() - before
        done = sum(answer["done"] for answer in answers)
        seconds = max(answer["last"] for answer in answers) - min(
            answer["first"] for answer in answers if answer["done"]
        )
        cpu_s = sum(answer["cpu_s"] for answer in answers)
        cost = {"process_us": cpu_s / done * 1e6, "server_us": server_s / done * 1e6, "rate": done / seconds}
        self._note(line, size, "a job drained by all together", cost)

    def _jobs(self, wanted: int) -> int:
        return max(2_000, int(wanted * self._scale))

    def _note(self, line: str, size: int, what: str, cost: dict[str, float]) -> None:
        self.points.points.append(Point(line, size, what, cost["process_us"], cost["server_us"], cost["rate"]))

    def _start(self, task: str, size: int) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            [sys.executable, str(DRIVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )
        assert program.stdin is not None
        options = {"slice": self._jobs(50_000), "seconds": max(1.0, 4.0 * min(1.0, self._scale * 10))}
        program.stdin.write(json.dumps({"task": task, "url": self._server.url, "jobs": size, "options": options}))
        program.stdin.close()
        program.stdin = None
        return program

    def _cpu_s(self) -> float:
        lines = self._server.call("INFO", "cpu").decode().splitlines()
        used = dict(line.split(":", 1) for line in lines if ":" in line)
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def _ended(program: subprocess.Popen[str]) -> dict[str, Any]:
    started = time.monotonic()
    try:
        out, err = program.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.communicate()
        raise GrowthFailed(f"not done after {time.monotonic() - started:.0f} s") from None
    if program.returncode != 0 or not out.strip():
        raise GrowthFailed(err.strip()[-400:] or "no answer")
    return json.loads(out.strip().splitlines()[-1])
