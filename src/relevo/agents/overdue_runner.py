"""Runs what is overdue, in whichever process notices first: the beat of the agents when the engine does not give it.

It asks only when each agent was last started. Whether Redis is away, was emptied, or the process that led has hung: an agent
that should have run and has not is run here, under the lease in SQL. Without Redis this is the only beat there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from relevo.agents.agent import Agent
from relevo.agents.agent_runner import AgentRunner
from relevo.agents.runs import Runs
from relevo.agents.stream_scheduler import StreamScheduler
from relevo.engine.service.loop import Loop
from relevo.work.work_queues import WorkQueues

_GRACE_MS = 3_000
"""How late the engine may be before we step in: a new leader of the scheduler needs its lock's five seconds, less a beat."""


class OverdueRunner(Loop):
    """Looks every `every` seconds."""

    def __init__(
        self,
        work_queues: WorkQueues,
        agents: Mapping[str, Agent],
        runs: Runs,
        runner: AgentRunner,
        scheduler: StreamScheduler | None,
        *,
        every: float = 0.5,
    ) -> None:
        super().__init__("agents-watch", every=every)
        self._work_queues = work_queues
        self._agents = agents
        self._runs = runs
        self._runner = runner
        self._scheduler = scheduler
        self._arranged = False
        self._under_way: set[asyncio.Task[Any]] = set()

    async def tick(self) -> float | None:
        works = self._scheduler is not None and self._scheduler.works
        grace = _GRACE_MS if works and self._arranged else 0
        now = self._work_queues.now_ms()
        for name, run_state in (await self._runs.run_states()).items():
            agent = self._agents.get(name)
            if agent is None or self._runner.is_busy(name) or run_state.leased_until > now:
                continue
            every_ms = int(agent.every_s * 1000)
            if now - run_state.started_at >= every_ms + grace:
                # The schedule may be gone (an emptied Redis), or the look after this one would find the same again.
                self._arranged = False
                self._begin(agent, not_since=now - every_ms)
        if self._scheduler is not None and not self._arranged:  # last: a Redis that hangs must not hold up the look
            self._arranged = works and await self._scheduler.arrange()
        return None

    def _begin(self, agent: Agent, *, not_since: int) -> None:
        # A task of its own: a long run of one agent must not keep the watch from the others.
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
