"""Every second: asks the rules about messages that were completed, failed, expired, died, or were decided by people
(see work/routing/router.py; what is published is routed by the publish itself)."""

from __future__ import annotations

from relevo.agents.agent import Batch
from relevo.work.work_queues import WorkQueues


class MessageRouter:
    """Takes what rules wait for one by one, oldest first."""

    name = "message_router"
    every_s = 1.0
    about = "asks the rules about what happened to messages"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 100) -> None:
        self._work_queues = work_queues
        self._batch = batch

    async def work(self) -> Batch:
        count = await self._work_queues.router.advance(self._batch)
        return Batch(count, more=count == self._batch)
