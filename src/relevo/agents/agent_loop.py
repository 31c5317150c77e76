"""The beat of an agent that never rests: whoever holds its lease works all the time, the others wait for the lease."""

from __future__ import annotations

import time

from relevo.agents.agent import Agent
from relevo.agents.runs import Runs
from relevo.engine.service.loop import Loop
from relevo.engine.service.signals import Signal

LEASE_S = 6.0
_NOTE_S = 2.0


class AgentLoop(Loop):
    """Holds the lease of one agent and works for as long as it has it. Noted in the record every two seconds, not at every
    look: a look that finds nothing should cost one query and no write."""

    def __init__(self, agent: Agent, runs: Runs, *, every: float = 0.1) -> None:
        super().__init__(agent.name, every=every)
        self.worked: Signal[int] = Signal()
        """Emitted after each batch, with its number of items."""
        self._agent = agent
        self._runs = runs
        self._leased = 0.0
        self._items = 0

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def leads(self) -> bool:
        """Whether this process has the lease, and for long enough to begin a batch."""
        return time.monotonic() < self._leased - LEASE_S / 3

    async def tick(self) -> float | None:
        if time.monotonic() > self._leased - LEASE_S + _NOTE_S and not await self._note(None):
            return 1.0
        began = time.monotonic()
        try:
            batch = await self._agent.work()
        except Exception as error:
            await self._note(f"{type(error).__name__}: {error}")
            raise
        self._items += batch.items
        self.worked.emit(batch.items)
        # As long a pause as the work took: a backlog must not starve those who publish.
        return min(time.monotonic() - began, self.every) if batch.more else None

    async def finish(self) -> None:
        if self._leased:
            await self._runs.end(self._agent.name, items=self._items, error=None)

    async def _note(self, error: str | None) -> bool:
        """Notes what was done since the last note, and renews the lease."""
        if self._leased:
            await self._runs.end(self._agent.name, items=self._items, error=error, keep_lease=True)
            self._items = 0
        asked = time.monotonic()
        held = await self._runs.begin(self._agent.name, lease_s=LEASE_S)
        self._leased = asked + LEASE_S if held else 0.0
        return held
