"""Ends what the tests of a run started and left behind, however the run ends: by itself, by Ctrl-C, or killed.

A test ends what it starts. One that is interrupted, or whose process is killed, cannot: `relevo up`, a JVM or a browser would
then run on for ever. So all that a run starts inherits a mark in its environment, and whoever has it when the run is over is
killed: by the process that leads the run, or by a warden of its own where that one was killed itself. A process whose death
costs a test (`watch.py`) takes its part of them with it.

Servers and databases do not have the mark (`unmarked`): each has a lifeline, which ends it in its own way and tidies up.
Where there is no /proc (macOS) nothing is found, and what is left behind stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

MARK = "STARTED_BY_TEST_RUN"
"""The environment variable. Its value are the runs a process belongs to, one in the other: `/tmp/a/gw1 /tmp/b`."""

_TRIES, _BETWEEN = 500, 0.01


def mark(run: str) -> None:
    """From here on, what this process starts belongs to a run; inside another run, to that one as well."""
    os.environ[MARK] = f"{os.environ.get(MARK, '')} {run}".strip()


def mark_part(process: str) -> None:
    """As `mark`, for a process of the run."""
    os.environ[MARK] = f"{os.environ[MARK]}/{process}"


def unmark() -> None:
    outer = os.environ.pop(MARK, "").rpartition(" ")[0]
    if outer:
        os.environ[MARK] = outer


def marked(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment that a test has put together, with the mark of this process."""
    return {**environment, **({MARK: os.environ[MARK]} if MARK in os.environ else {})}


def unmarked() -> dict[str, str]:
    """The environment of what has a lifeline."""
    return {name: value for name, value in os.environ.items() if name != MARK}


def end_marked(run: str) -> list[str]:
    """Kills all that belongs to a run, or to one process of it (`/tmp/a/gw1`); their command lines."""
    killed: dict[int, str] = {}
    for _ in range(_TRIES):  # one may start another while we look; and a kill only asks
        living = dict(_kill(run))
        if not living:
            break
        killed |= living
        time.sleep(_BETWEEN)
    return list(killed.values())


def _kill(run: str) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            pid = int(folder.name)
            if pid == os.getpid():
                continue
            held = os.pidfd_open(pid)  # so that nobody else is hit who gets its number
            try:
                if _belongs((folder / "environ").read_bytes(), run):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    signal.pidfd_send_signal(held, signal.SIGKILL)
                    yield pid, command
            finally:
                os.close(held)


def _belongs(environment: bytes, run: str) -> bool:
    prefix = f"{MARK}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            parts = os.fsdecode(entry.removeprefix(prefix)).split(" ")
            return any(part == run or part.startswith(f"{run}/") for part in parts)
    return False


class Warden:
    """A process that outlives this one if need be: it waits for the end of a pipe that we hold, and then ends what is left."""

    def __init__(self, run: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-I", __file__, run],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=unmarked(),
            start_new_session=True,  # Ctrl-C is not for it
        )

    def close(self) -> None:
        """Who leads the run ends it as usual, and has looked itself."""
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    sys.stdin.read()
    end_marked(sys.argv[1])
