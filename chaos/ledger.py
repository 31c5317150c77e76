"""What really happened, written by those to whom it happened: one line for each start and end of a run.

A file and not Redis, because Redis is among what fails here. A line is one append: it is there or not, never half, and it
stays when its writer is killed right after. Times are of the machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.pace import limit


class Mark(NamedTuple):
    """One line. `kind` is ready, start, end, cut, left or died; the last is written by whoever killed the process."""

    kind: str
    pid: int
    at: float
    job_id: str = ""


class Ledger:
    """Appends marks and reads them back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, kind: str, job_id: str = "", *, pid: int | None = None) -> None:
        line = f"{kind}\t{os.getpid() if pid is None else pid}\t{time.monotonic():.6f}\t{job_id}\n"
        os.write(self._file, line.encode())

    def marks(self) -> list[Mark]:
        found: list[Mark] = []
        for line in self.path.read_text().splitlines():
            kind, pid, at, job_id = line.split("\t")
            found.append(Mark(kind, int(pid), float(at), job_id))
        return found

    def of(self, kind: str) -> list[Mark]:
        return [mark for mark in self.marks() if mark.kind == kind]

    async def wait_for(self, enough: Callable[[list[Mark]], bool], *, timeout: float = 30.0) -> list[Mark]:
        """The marks, once they are `enough`. Another process writes them, so there is nothing but to look again."""
        async with asyncio.timeout(limit(timeout)):
            while not enough(marks := self.marks()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return marks

    def close(self) -> None:
        os.close(self._file)
