"""Worker processes, and what can be done to them."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chaos.ledger import Ledger, Mark
from tests.servers.child import Child

ROOT = Path(__file__).parents[1]


class WorkerProcess:
    """One worker in a process of its own (program.py). Ended at the latest with the context."""

    def __init__(self, ledger: Ledger, queue: str, url: str, **options: Any) -> None:
        self._ledger = ledger
        command = [sys.executable, "-m", "chaos.program", str(ledger.path), queue, url, json.dumps(options)]
        self.child = Child(*command, cwd=ROOT, group=True)

    @property
    def pid(self) -> int:
        return self.child.pid

    async def ready(self) -> Self:
        """Waits until it reads."""
        await self.until(lambda marks: any(mark[:2] == ("ready", self.pid) for mark in marks))
        return self

    async def until(self, enough: Callable[[list[Mark]], bool]) -> None:
        """Waits until the marks are `enough`, which this process is to write."""
        await self.child.until(lambda: enough(self._ledger.marks()), "what it was to write into the ledger")

    def signal(self, number: signal.Signals) -> None:
        self.child.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL; the ledger says when it was certainly dead."""
        self.child.kill()
        self._ledger.write("died", pid=self.pid)

    def pause(self) -> None:
        """SIGSTOP: it holds what it holds and does nothing, as in a machine that swaps or a virtual one that moves."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    async def ended(self, *, timeout: float = 30.0) -> int:
        """Waits for its end: the exit code, negative for a signal that killed it."""
        return await asyncio.to_thread(self.child.ended, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.child.alive:
            self.kill()
        self.child.close()
