"""Every second: carries erasures on that were too large for one transaction (see work/retention/erasure.py)."""

from __future__ import annotations

from relevo.agents.agent import Batch
from relevo.work.work_queues import WorkQueues


class ErasureRunner:
    """Gives each erasure a batch in turn."""

    name = "erasure_runner"
    every_s = 1.0
    about = "carries erasures on"

    def __init__(self, work_queues: WorkQueues) -> None:
        self._work_queues = work_queues

    async def work(self) -> Batch:
        running = await self._work_queues.erasures.running()
        done = 0
        for erasure_id in running:
            done += await self._work_queues.erasures.advance(erasure_id)
        return Batch(done, more=done > 0)
