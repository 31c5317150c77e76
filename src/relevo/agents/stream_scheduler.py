"""The beat of the agents while Redis is there: repeatable jobs of one stream queue of ours, which every process works for.

The engine's scheduler has one leader and gives each slot once; whichever process reads the job runs the agent. The jobs are
like any others: `relevo queues`, its events and its metrics show them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from relevo.agents.agent import Agent
from relevo.agents.agent_runner import AgentRunner
from relevo.engine.job.job import Job
from relevo.engine.queue import Queue
from relevo.engine.schedules.patterns import MissedFiresPolicy
from relevo.engine.worker import Worker
from relevo.errors import AgentFailed, RelevoError

log = logging.getLogger("relevo.agents")

_ANSWER_S = 2.0
_LEAVING_S = 5.0
_KEPT_FAILURES = 1_000
_CAUGHT_UP = MissedFiresPolicy.fire_once()
"""One run makes up for all that were missed: a downtime is nothing to warn of."""


def agents_queue(installation: str) -> str:
    """The stream queue of an installation's agents."""
    return f"work-agents-{installation}"


class StreamScheduler:
    """Makes the schedules, and works for them in this process."""

    def __init__(self, queue_name: str, agents: Mapping[str, Agent], runner: AgentRunner, *, redis_url: str) -> None:
        self._agents = agents
        self._runner = runner
        self._queue = Queue(queue_name, redis_url=redis_url, wait_s=2.0)
        # One attempt: the next slot is the retry. Short idle time: a dead process's run is over after seconds.
        self.worker = Worker(
            queue_name,
            self._run,
            redis_url=redis_url,
            concurrency=4 * len(agents),
            max_attempts=1,
            claim_min_idle_ms=10_000,
            dlq_max_stream_len=_KEPT_FAILURES,
            shutdown_deadline_s=_LEAVING_S,
        )
        self._working: asyncio.Task[None] | None = None

    @property
    def works(self) -> bool:
        """Whether this process can hear the beat at all."""
        return self._working is not None and not self._working.done() and self.worker.health().can_claim

    def start(self) -> None:
        self._working = asyncio.create_task(self.worker.run(handle_signals=False), name="relevo-agents")

    async def arrange(self) -> bool:
        """Makes the schedules that are missing, and leaves the beat of the others alone. False while Redis is away."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                for agent in self._agents.values():
                    every = {"kind": "every", "interval_ms": int(agent.every_s * 1000)}
                    await self._queue.upsert_repeatable_job(
                        agent.name, {}, repeat=every, key=agent.name, missed_fires=_CAUGHT_UP
                    )
        except (RelevoError, OSError, TimeoutError) as error:
            log.debug("the schedules of the agents could not be made: %s", error)
            return False
        return True

    async def stop(self) -> None:
        self.worker.close()
        if self._working is not None:
            done, _ = await asyncio.wait([self._working], timeout=_LEAVING_S)
            if not done:  # Redis does not answer; what we held is taken over by others
                self._working.cancel()
                await asyncio.wait([self._working])
        await self._queue.close()

    async def _run(self, job: Job) -> None:
        agent = self._agents.get(job.name)
        if agent is None:
            return  # of another version of the program, which has an agent that we have not
        ran = await self._runner.run(agent)
        if ran is not None and ran.error is not None:
            raise AgentFailed(agent=agent.name, reason=ran.error)
