"""Several processes, and the one that looks after them: for `relevo worker` and for `relevo serve --processes`. What crashes is
started again, what is changed is started anew, and a signal reaches all."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from relevo.cli.shell.failures import WRONG_CALL
from relevo.engine.service.exit_signals import catch_exit_signals

log = logging.getLogger("relevo.supervisor")

RECYCLED = 75
"""The exit code of a process that has done its share: it is replaced, and nothing is wrong."""

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_HEALTHY_AFTER_S = 30.0
"""A process that lived this long was well: the next crash is the first again."""

_IN_ORDER = (0, RECYCLED, -signal.SIGTERM)
"""How a process may end after a signal: one that had only begun to start dies of it, and had nothing in its hands."""


async def start_process(module: str, *arguments: str, said: str = "", env: Mapping[str, str] | None = None) -> Process:
    """Starts `python -m module` and says something to it. Its stdin is open for as long as we live: it leaves when that ends.

    It has a process group of its own: Ctrl-C of a terminal goes to a whole group, and a supervisor passes it on itself, once.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=PIPE, env=env, process_group=0
    )
    assert process.stdin is not None
    process.stdin.write(said.encode())
    return process


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

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.alive:
            self.process.send_signal(number)


class Supervisor:
    """Keeps `size` processes running until it is told to end; the exit code says how that went.

    `start` starts the process with a number, counted from 1. The first SIGINT or SIGTERM asks all of them to end in order, a
    second asks again, a third kills them. With `changes` all are started anew at each change. A `quiet` one only tells of what
    went wrong. `ended` hears of every process that is gone.
    """

    def __init__(
        self,
        start: Callable[[int], Awaitable[Process]],
        size: int,
        *,
        changes: AsyncGenerator[str] | None = None,
        quiet: bool = False,
        ended: Callable[[Process], None] = lambda _: None,
    ) -> None:
        self._start = start
        self._children = [Child(number) for number in range(1, size + 1)]
        self._changes = changes
        self._ended = ended
        self._quiet = quiet
        self._signals = 0
        self._ending = asyncio.Event()
        self._changed = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        restore = catch_exit_signals(self._signalled)
        self._tell(logging.INFO, "process %d supervises %d processes", os.getpid(), len(self._children))
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
                    log.warning("child %d %s", child.number, how_it_ended(code))
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
        child.process = process = await self._start(child.number)
        if self._ending.is_set():  # the signal came while it was being started
            child.send(signal.SIGTERM)
        code = await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self._ended(process)
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
        ended = how_it_ended(code)
        log.error("child %d %s; restarting it in %.1f s (crash %d)", child.number, ended, pause, child.crashes)
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
            log.info("%s changed: restarting", file)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            for child in self._children:
                child.send(signal.SIGTERM)

    def _signalled(self, name: str) -> None:
        self._signals += 1
        alive = sum(child.alive for child in self._children)
        if self._signals > 2:
            log.warning("%s a third time: killing %d processes", name, alive)
        else:
            what = "finish their jobs (send it again to stop now)" if self._signals == 1 else "stop now"
            self._tell(logging.WARNING, "%s: told %d processes to %s", name, alive, what)
        self._end(signal.SIGKILL if self._signals > 2 else signal.SIGTERM)

    def _end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._ending.set()
        for child in self._children:
            child.send(number)

    def _tell(self, level: int, message: str, *values: object) -> None:
        """What is in order."""
        if not self._quiet:
            log.log(level, message, *values)


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
