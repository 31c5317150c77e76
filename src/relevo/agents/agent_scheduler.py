"""Runs each agent when it is due, in one of the processes: when an agent was last started is in SQL, and so is its lease.

Whoever ran an agent last looks for its next turn first, and the others a moment later: as long as that process lives they find
the agent started, and when it has gone or hangs one of them takes over. Redis has no part in it, so agents go on without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from relevo.agents.agent import Agent
from relevo.agents.agent_runner import AgentRunner
from relevo.agents.runs import Runs
from relevo.engine.service.loop import Loop
from relevo.work.work_queues import WorkQueues

_OTHERS_WAIT_MS = 250
"""How long after its time an agent is left to the process that ran it last."""
_TOGETHER_MS = 100
"""Agents that are due this soon begin with one that is due now: one look for several."""
_LOOK_S = 1.0
"""How long it may be until the next look: an agent may be asked for elsewhere, and clocks may be set."""


class AgentScheduler(Loop):
    """Looks when the next agent is due, and at least every second."""

    def __init__(self, work_queues: WorkQueues, agents: Mapping[str, Agent], runs: Runs, runner: AgentRunner) -> None:
        super().__init__("agents", every=_LOOK_S)
        self._work_queues = work_queues
        self._agents = agents
        self._runs = runs
        self._runner = runner
        self._under_way: set[asyncio.Task[Any]] = set()

    async def tick(self) -> float | None:
        now = self._work_queues.now_ms()
        waits = [int(_LOOK_S * 1000)]
        for name, state in (await self._runs.run_states()).items():
            agent = self._agents.get(name)
            if agent is None or self._runner.is_busy(name) or state.leased_until > now:
                continue
            every_ms = int(agent.every_s * 1000)
            wait_ms, early_ms = state.started_at + every_ms - now, 0
            if state.ran_here:
                early_ms = min(_TOGETHER_MS, every_ms // 10)
            elif state.started_at:
                wait_ms += min(_OTHERS_WAIT_MS, every_ms)
            if wait_ms <= early_ms:
                self._begin(agent, not_since=now - every_ms + early_ms)
                wait_ms = every_ms
            waits.append(wait_ms)
        return min(waits) / 1000

    def run_soon(self, agent: Agent) -> None:
        """Runs an agent before its time, unless somebody is at it."""
        self._begin(agent, not_since=None)

    def _begin(self, agent: Agent, *, not_since: int | None) -> None:
        # A task of its own: a long run of one agent must not keep the others waiting.
        task = asyncio.create_task(self._runner.run(agent, not_since=not_since), name=f"relevo-agent-{agent.name}")
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and isinstance(error, Exception):
            self.failed.emit(error)  # the database is away: nothing could be noted, the next look tries again

    async def finish(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way)
