"""One run of one agent: takes its lease, works batch by batch, notes how it ended. Whoever gives the beat calls this."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple

from relevo.agents.agent import Agent
from relevo.agents.runs import Runs
from relevo.engine.service.signals import Signal
from relevo.errors import StoreUnavailable

log = logging.getLogger("relevo.agents")

LEASE_S = 10.0
"""Outlasts a batch by far; who dies in the middle of one is waited for no longer."""
_LONGEST_BREATH_S = 0.25


class RunResult(NamedTuple):
    """A run that ended here."""

    agent: str
    items: int
    error: str | None


class AgentRunner:
    """Runs agents in this process, each at most once at a time."""

    def __init__(self, runs: Runs) -> None:
        self.ran: Signal[RunResult] = Signal()
        """Emitted after each run, also one that found nothing to do."""
        self._runs = runs
        self._busy: set[str] = set()
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    def is_busy(self, name: str) -> bool:
        return name in self._busy

    async def run(self, agent: Agent, *, not_since: int | None = None) -> RunResult | None:
        """Runs `agent` until it finds no more work. None when somebody else is at it, or was after `not_since`."""
        if self._stopping or agent.name in self._busy:
            return None
        self._busy.add(agent.name)
        self._idle.clear()
        try:
            if not await self._runs.begin(agent.name, lease_s=LEASE_S, not_since=not_since):
                return None
            ran = await self._work(agent)
        finally:
            self._busy.discard(agent.name)
            if not self._busy:
                self._idle.set()
        self.ran.emit(ran)
        return ran

    async def stop(self) -> None:
        """Lets the batches under way end; begins no other."""
        self._stopping = True
        await self._idle.wait()

    async def _work(self, agent: Agent) -> RunResult:
        items, error = 0, None
        renewed = time.monotonic()
        try:
            while True:
                began = time.monotonic()
                batch = await agent.work()
                items += batch.items
                if not batch.more or self._stopping:
                    break
                now = time.monotonic()
                if now - renewed > LEASE_S / 3:
                    if not await self._runs.renew(agent.name, lease_s=LEASE_S):
                        break  # we stood still for too long, and another goes on with it
                    renewed = now
                # A large backlog takes half of the database's time and no more: it must not starve those who publish.
                await asyncio.sleep(min(now - began, _LONGEST_BREATH_S))
        except StoreUnavailable as failure:  # the log has it already
            error = f"{type(failure).__name__}: {failure}"
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            log.exception("the agent %s failed after %d items; it comes again at its next beat", agent.name, items)
        await self._runs.end(agent.name, items=items, error=error)
        return RunResult(agent.name, items, error)
