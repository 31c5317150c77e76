"""Several worker processes, and the one that looks after them. What crashes is started again, what is changed is started anew,
and a signal reaches all."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from relevo.cli.shell.failures import WRONG_CALL
from relevo.cli.workers.worker_process import RECYCLED
from relevo.cli.workers.worker_spec import WorkerSpec
from relevo.engine.exit_signals import catch_exit_signals

log = logging.getLogger("relevo.supervisor")

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_HEALTHY_AFTER_S = 30.0
"""A process that lived this long was well: the next crash is the first again."""

_IN_ORDER = (0, RECYCLED, -signal.SIGTERM)
"""How a process may end after a signal: one that had only begun to start dies of it, and had nothing in its hands."""


@dataclass
class Child:
    """One of the supervised processes; when it ends, the next one takes its number."""

    number: int
    process: Process | None = None
    crashes: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None


class Supervisor:
    """Keeps `size` worker processes running until it is told to end; the exit code says how that went.

    The first SIGINT or SIGTERM lets running jobs finish, a second stops them, a third kills the processes.
    """

    def __init__(self, spec: WorkerSpec, size: int, changes: AsyncGenerator[str] | None = None) -> None:
        self._spec = spec
        self._children = [Child(number) for number in range(1, size + 1)]
        self._changes = changes
        self._signals = 0
        self._ending = asyncio.Event()
        self._changed = asyncio.Event()
        self._code = 0

    async def work(self) -> int:
        restore = catch_exit_signals(self._signalled)
        log.info("crew %d looks after %d processes", os.getpid(), len(self._children))
        follower = asyncio.ensure_future(self._follow()) if self._changes is not None else None
        try:
            await asyncio.gather(*(self._keep(child) for child in self._children))
        finally:
            restore()
            if follower is not None:
                follower.cancel()
                await asyncio.wait([follower])
        return self._code

    # --- one child -----------------------------------------------------------------------------------------------------

    async def _keep(self, child: Child) -> None:
        while not self._ending.is_set():
            changed = self._changed
            code = await self._one_process(child)
            if self._ending.is_set():
                if code not in _IN_ORDER:
                    log.warning("process %d of the crew %s", child.number, how_it_ended(code))
                    self._code = self._code or 1
                return
            if code == RECYCLED or changed.is_set():
                child.crashes = 0
            elif code == WRONG_CALL:
                await self._cannot_work(changed)
            else:
                await self._after_crash(child, code, changed)

    async def _one_process(self, child: Child) -> int:
        child.begun = time.monotonic()
        # A process group of its own: Ctrl-C of a terminal goes to a whole group, and we pass it on ourselves, once.
        child.process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "relevo.cli.workers.child", stdin=asyncio.subprocess.PIPE, process_group=0
        )
        assert process.stdin is not None
        process.stdin.write(self._spec.for_child(child.number).written.encode() + b"\n")
        if self._ending.is_set():  # the signal came while it was being started
            self._send(child, signal.SIGTERM)
        code = await process.wait()
        process.stdin.close()
        return code

    async def _cannot_work(self, changed: asyncio.Event) -> None:
        """Its complaint is in the log already. Waits for a change where changes are followed, else ends."""
        if self._changes is None:
            self._code = WRONG_CALL
            self._end()
            return
        log.info("waiting for a change")
        await self._first_of(changed)

    async def _after_crash(self, child: Child, code: int, changed: asyncio.Event) -> None:
        if time.monotonic() - child.begun > _HEALTHY_AFTER_S:
            child.crashes = 0
        pause = min(_FIRST_PAUSE_S * 2**child.crashes, _LONGEST_PAUSE_S)
        child.crashes += 1
        log.error(
            "process %d of the crew %s; it is started again in %.1f s (crash %d)",
            child.number, how_it_ended(code), pause, child.crashes,
        )  # fmt: skip
        await self._first_of(changed, pause)

    async def _first_of(self, changed: asyncio.Event, seconds: float | None = None) -> None:
        """Until the end, a change, or the time is up."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._ending, changed)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    # --- all of them ---------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        assert self._changes is not None
        async for file in self._changes:
            log.info("%s changed: the crew is started anew", file)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            for child in self._children:
                self._send(child, signal.SIGTERM)

    def _signalled(self, name: str) -> None:
        self._signals += 1
        alive = sum(child.alive for child in self._children)
        if self._signals > 2:
            log.warning("%s a third time: killing %d processes", name, alive)
        else:
            what = "finish their jobs (again to stop now)" if self._signals == 1 else "stop now"
            log.warning("%s: %d processes are told to %s", name, alive, what)
        self._end(signal.SIGKILL if self._signals > 2 else signal.SIGTERM)

    def _end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._ending.set()
        for child in self._children:
            self._send(child, number)

    @staticmethod
    def _send(child: Child, number: signal.Signals) -> None:
        if child.process is not None and child.alive:
            child.process.send_signal(number)


def how_it_ended(code: int) -> str:
    """An exit code in words.

    >>> how_it_ended(-9), how_it_ended(1)
    ('was killed by SIGKILL', 'ended with code 1')
    """
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def run_supervisor(spec: WorkerSpec, size: int, changes: AsyncGenerator[str] | None = None) -> int:
    async def work() -> int:
        return await Supervisor(spec, size, changes).work()

    return asyncio.run(work())
