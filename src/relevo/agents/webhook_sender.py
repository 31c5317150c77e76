"""Every second: sends what webhooks are owed and nobody has sent.

With Redis the stream queue of `webhook_jobs` sends, and this agent only what is overdue there: jobs that were lost with a
Redis, or that nobody could take. Without Redis everything is sent from here. Who sends takes the row first: never both send.
"""

from __future__ import annotations

import asyncio

from relevo.agents.agent import Batch
from relevo.work.webhooks.deliveries import Due
from relevo.work.work_queues import WorkQueues

_GRACE_MS = 10_000
"""How long the stream queue may be late before we step in."""
_CLEAR_EVERY_MS = 600_000


class WebhookSender:
    """Sends up to `batch` deliveries at once."""

    name = "webhook_courier"
    every_s = 1.0
    about = "sends events to webhooks, and forgets old deliveries"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 32) -> None:
        self._work_queues = work_queues
        self._batch = batch
        self._cleared_at = 0

    async def work(self) -> Batch:
        deliveries = self._work_queues.webhook_deliveries
        grace = 0 if self._work_queues.settings.redis_url is None else _GRACE_MS
        due = await deliveries.overdue(by_ms=grace, limit=self._batch)
        await asyncio.gather(*(self._attempt(each) for each in due))
        cleared = await self._clear()
        return Batch(len(due) + cleared, more=len(due) == self._batch)

    async def _attempt(self, due: Due) -> None:
        await self._work_queues.webhook_deliveries.attempt(due)

    async def _clear(self) -> int:
        now = self._work_queues.now_ms()
        if now - self._cleared_at < _CLEAR_EVERY_MS:
            return 0
        cleared = await self._work_queues.webhook_deliveries.clear()
        if cleared == 0:
            self._cleared_at = now
        return cleared
