"""Sends what webhooks are owed: at once when the relay has made deliveries, and what is due again at its time.

A slow receiver waits for itself alone. At most four deliveries to one webhook are under way, the others wait in their rows,
and a batch never waits for a receiver: whatever is still under way at its end is looked after by the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from relevo.agents.agent import Batch
from relevo.work.webhooks.deliveries import Due
from relevo.work.work_queues import WorkQueues

_A_WEBHOOK = 4
_AT_ONCE = 64
"""Deliveries under way to all webhooks: as many as the sender has connections."""
_BATCH_S = 2.0
"""How long a batch goes on while deliveries are under way; its lease is renewed between batches."""
_LEAVING_S = 20.0
"""How long a process that leaves waits for receivers; longer than one of them may take."""
_CLEAR_EVERY_MS = 600_000


class WebhookSender:
    """Keeps deliveries under way, at most `a_webhook` to the same one."""

    name = "webhook_courier"
    every_s = 1.0
    about = "sends events to webhooks, and forgets old deliveries"

    def __init__(self, work_queues: WorkQueues, *, a_webhook: int = _A_WEBHOOK) -> None:
        self._deliveries = work_queues.webhook_deliveries
        self._now_ms = work_queues.now_ms
        self._a_webhook = a_webhook
        self._sending: dict[asyncio.Task[None], Due] = {}
        self._stirred = asyncio.Event()
        """A delivery has ended, or another is due."""
        self._cleared_at = 0

    def wake(self) -> None:
        """Looks again for what is due, if a batch is under way."""
        self._stirred.set()

    async def work(self) -> Batch:
        ended, until = 0, time.monotonic() + _BATCH_S
        while True:
            self._stirred.clear()
            ended += self._take_ended()
            await self._begin_due()
            left_s = until - time.monotonic()
            if not self._sending or left_s <= 0:
                break
            try:
                async with asyncio.timeout(left_s):
                    await self._stirred.wait()
            except TimeoutError:
                break
        return Batch(ended + await self._clear(), more=bool(self._sending))

    async def close(self) -> None:
        """Waits for what is under way. What does not end in time is due again by its row."""
        if self._sending:
            _, late = await asyncio.wait(self._sending, timeout=_LEAVING_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _take_ended(self) -> int:
        ended = [task for task in self._sending if task.done()]
        for task in ended:
            del self._sending[task]
        for task in ended:
            task.result()  # the database failed: the run says so, and the row is due again by itself
        return len(ended)

    async def _begin_due(self) -> None:
        """Begins what is due, as far as there is room; looks again while it finds some, past webhooks that have enough."""
        begun = True
        while begun and len(self._sending) < _AT_ONCE:
            begun = False
            busy = Counter(due.webhook_id for due in self._sending.values())
            known = {due.id for due in self._sending.values()}
            full = [webhook_id for webhook_id, count in busy.items() if count >= self._a_webhook]
            for due in await self._deliveries.due_now(limit=_AT_ONCE + len(known), without=full):
                if len(self._sending) < _AT_ONCE and due.id not in known and busy[due.webhook_id] < self._a_webhook:
                    busy[due.webhook_id] += 1
                    self._begin(due)
                    begun = True

    def _begin(self, due: Due) -> None:
        task = asyncio.create_task(self._send(due), name=f"relevo-webhook-{due.id}")
        self._sending[task] = due
        task.add_done_callback(lambda _: self._stirred.set())

    async def _send(self, due: Due) -> None:
        await self._deliveries.attempt(due)

    async def _clear(self) -> int:
        now = self._now_ms()
        if now - self._cleared_at < _CLEAR_EVERY_MS:
            return 0
        cleared = await self._deliveries.clear()
        if cleared == 0:
            self._cleared_at = now
        return cleared
