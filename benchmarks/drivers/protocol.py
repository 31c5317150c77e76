"""What every driver shares: the question on standard input, the answer on standard output, and what is read from the
machine in between. Nothing but the standard library, because each driver runs in a virtual environment of its own.

Asked `{"task", "url", "jobs", "options"}`, a driver prints one JSON object of measures: `rate` (jobs a second), `cpu_us` and
`server_cpu_us` (CPU microseconds a job, of this process and of Redis), `p50_ms`, `p99_ms`, `idle_mb`, `busy_mb`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

Measures = dict[str, float]


class Asked:
    """One question."""

    def __init__(self, task: str, url: str, jobs: int, options: dict[str, Any]) -> None:
        self.task = task
        self.url = url
        self.jobs = jobs
        self.options = options

    @staticmethod
    def read() -> Asked:
        asked = json.load(sys.stdin)
        return Asked(asked["task"], asked["url"], asked["jobs"], asked["options"])


def answer(measures: Measures) -> NoReturn:
    """Prints the answer and ends at once: how long a library takes to shut down is not the question."""
    print("\n" + json.dumps(measures), flush=True)  # the last line: some libraries print lines of their own before it
    os._exit(0)


def give_up() -> NoReturn:
    """In an `except` block: the traceback is the answer. A worker that died would otherwise leave its driver waiting."""
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)


class Watcher:
    """Looks at the server from outside, over a plain socket: the library under test is not asked."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379))
        self._stream = self._socket.makefile("rb")

    def call(self, *words: str) -> Any:
        packed = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        self._socket.sendall(f"*{len(words)}\r\n{packed}".encode())
        return self._reply()

    def _reply(self) -> Any:
        line = self._stream.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self._stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest

    def cpu_s(self) -> float:
        """CPU seconds the server has used so far, all its threads."""
        lines = self.call("INFO", "cpu").decode().splitlines()
        used = dict(line.split(":", 1) for line in lines if ":" in line)
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


class Stopwatch:
    """Time, CPU of both sides and memory between `start` and `stop`."""

    def __init__(self, url: str) -> None:
        self._watcher = Watcher(url)
        self.running = False

    def start(self) -> None:
        self.running = True
        # Makes the kernel forget the highest memory so far; without the right to do so the peak includes the filling.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._server_cpu = self._watcher.cpu_s()
        self._cpu, self._at = time.process_time(), time.perf_counter()

    def stop(self, jobs: int) -> Measures:
        seconds, cpu = time.perf_counter() - self._at, time.process_time() - self._cpu
        server_cpu = self._watcher.cpu_s() - self._server_cpu
        self.running = False
        return {
            "rate": jobs / seconds,
            "cpu_us": cpu / jobs * 1e6,
            "server_cpu_us": server_cpu / jobs * 1e6,
            "busy_mb": memory_mb("VmHWM"),
        }


def memory_mb(field: str = "VmRSS") -> float:
    """Memory of this process: `VmRSS` now, `VmHWM` at its highest. Not getrusage's maximum, which the starter bequeaths."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # not Linux
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024


def percentiles(seconds: list[float]) -> Measures:
    seconds = sorted(seconds)
    return {"p50_ms": seconds[len(seconds) // 2] * 1000, "p99_ms": seconds[int(len(seconds) * 0.99)] * 1000}
