"""A crew: several worker processes, and the one that looks after them. What crashes is started again, what is changed is
started anew, and a signal reaches all."""

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

from relevo.cli.commands import WRONG_CALL
from relevo.cli.shift import RECYCLED, Orders
from relevo.engine.service.exit_signals import catch_exit_signals

log = logging.getLogger("relevo.crew")

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_HEALTHY_AFTER_S = 30.0
"""A process that lived this long was well: the next crash is the first again."""

_IN_ORDER = (0, RECYCLED, -signal.SIGTERM)
"""How a process may end after a signal: one that had only begun to start dies of it, and had nothing in its hands."""


@dataclass
class Place:
    """One place of the crew, taken by one process after the other."""

    number: int
    process: Process | None = None
    crashes: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None


class Crew:
    """Keeps `size` worker processes running until it is told to end; the exit code says how that went.

    The first SIGINT or SIGTERM lets running jobs finish, a second stops them, a third kills the processes.
    """

    def __init__(self, orders: Orders, size: int, changes: AsyncGenerator[str] | None = None) -> None:
        self._orders = orders
        self._places = [Place(number) for number in range(1, size + 1)]
        self._changes = changes
        self._signals = 0
        self._ending = asyncio.Event()
        self._changed = asyncio.Event()
        self._code = 0

    async def work(self) -> int:
        restore = catch_exit_signals(self._signalled)
        log.info("crew %d looks after %d processes", os.getpid(), len(self._places))
        follower = asyncio.ensure_future(self._follow()) if self._changes is not None else None
        try:
            await asyncio.gather(*(self._keep(place) for place in self._places))
        finally:
            restore()
            if follower is not None:
                follower.cancel()
                await asyncio.wait([follower])
        return self._code

    # --- one place -----------------------------------------------------------------------------------------------------

    async def _keep(self, place: Place) -> None:
        while not self._ending.is_set():
            changed = self._changed
            code = await self._one_process(place)
            if self._ending.is_set():
                if code not in _IN_ORDER:
                    log.warning("process %d of the crew %s", place.number, how_it_ended(code))
                    self._code = self._code or 1
                return
            if code == RECYCLED or changed.is_set():
                place.crashes = 0
            elif code == WRONG_CALL:
                await self._cannot_work(changed)
            else:
                await self._after_crash(place, code, changed)

    async def _one_process(self, place: Place) -> int:
        place.begun = time.monotonic()
        # A process group of its own: Ctrl-C of a terminal goes to a whole group, and we pass it on ourselves, once.
        place.process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "relevo.cli.crewman", stdin=asyncio.subprocess.PIPE, process_group=0
        )
        assert process.stdin is not None
        process.stdin.write(self._orders.at_place(place.number).written.encode() + b"\n")
        if self._ending.is_set():  # the signal came while it was being started
            self._send(place, signal.SIGTERM)
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

    async def _after_crash(self, place: Place, code: int, changed: asyncio.Event) -> None:
        if time.monotonic() - place.begun > _HEALTHY_AFTER_S:
            place.crashes = 0
        pause = min(_FIRST_PAUSE_S * 2**place.crashes, _LONGEST_PAUSE_S)
        place.crashes += 1
        log.error(
            "process %d of the crew %s; it is started again in %.1f s (crash %d)",
            place.number,
            how_it_ended(code),
            pause,
            place.crashes,
        )
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
            for place in self._places:
                self._send(place, signal.SIGTERM)

    def _signalled(self, name: str) -> None:
        self._signals += 1
        alive = sum(place.alive for place in self._places)
        if self._signals > 2:
            log.warning("%s a third time: killing %d processes", name, alive)
        else:
            what = "finish their jobs (again to stop now)" if self._signals == 1 else "stop now"
            log.warning("%s: %d processes are told to %s", name, alive, what)
        self._end(signal.SIGKILL if self._signals > 2 else signal.SIGTERM)

    def _end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._ending.set()
        for place in self._places:
            self._send(place, number)

    @staticmethod
    def _send(place: Place, number: signal.Signals) -> None:
        if place.process is not None and place.alive:
            place.process.send_signal(number)


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


def run_crew(orders: Orders, size: int, changes: AsyncGenerator[str] | None = None) -> int:
    async def work() -> int:
        return await Crew(orders, size, changes).work()

    return asyncio.run(work())
