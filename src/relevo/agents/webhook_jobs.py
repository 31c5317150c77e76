"""The stream queue of webhooks: each attempt at a delivery is a job of ours, in the lane of its webhook, at its time.

Lanes let one slow receiver wait for itself and not hold up the others. The job says only which delivery and which attempt; all
else is in the row, so a job that comes twice, late or not at all does no harm (see work/webhooks/deliveries.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from relevo.engine.job.job import Job
from relevo.engine.queue import Queue
from relevo.engine.worker import Worker
from relevo.errors import RelevoError
from relevo.work.webhooks.deliveries import Due
from relevo.work.work_queues import WorkQueues

log = logging.getLogger("relevo.agents")

_LEAVING_S = 20.0
_KEPT_FAILURES = 1_000
_AT_ONCE = 32


def webhooks_queue(installation: str) -> str:
    """The stream queue of an installation's webhooks."""
    return f"work-webhooks-{installation}"


class WebhookJobs:
    """Adds what is due to the queue, and works for it in this process."""

    def __init__(self, work_queues: WorkQueues, *, redis_url: str) -> None:
        self._work_queues = work_queues
        name = webhooks_queue(work_queues.installation)
        self._queue = Queue(name, redis_url=redis_url, wait_s=2.0)
        # The retries are ours, because their waits are no power of anything: a job is one attempt.
        self.worker = Worker(
            name,
            self._attempt,
            redis_url=redis_url,
            concurrency=_AT_ONCE,
            max_attempts=1,
            dlq_max_stream_len=_KEPT_FAILURES,
            shutdown_deadline_s=_LEAVING_S,
        )
        self._working: asyncio.Task[None] | None = None
        self._adding: set[asyncio.Task[None]] = set()
        self._deaf: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._deaf = self._work_queues.webhook_deliveries.due.listen(self._add_soon)
        self._working = asyncio.create_task(self.worker.run(handle_signals=False), name="relevo-webhooks")

    async def stop(self) -> None:
        self._deaf()
        self.worker.close()
        if self._adding:
            await asyncio.wait(self._adding)
        if self._working is not None:
            done, _ = await asyncio.wait([self._working], timeout=_LEAVING_S + 5)
            if not done:  # Redis does not answer; what we held is due again by its row
                self._working.cancel()
                await asyncio.wait([self._working])
        await self._queue.close()

    def _add_soon(self, due: Sequence[Due]) -> None:
        task = asyncio.get_running_loop().create_task(self._add(due))
        self._adding.add(task)
        task.add_done_callback(self._adding.discard)

    async def _add(self, due: Sequence[Due]) -> None:
        try:
            for each in due:
                await self._queue.add(
                    "deliver",
                    list(each),
                    lane=each.webhook_id,
                    job_id=f"{each.id}-{each.at}",
                    delay_ms=max(0, each.at - self._work_queues.now_ms()) or None,
                )
        except (RelevoError, OSError) as error:
            log.debug("deliveries wait in their rows until Redis is back: %s", error)

    async def _attempt(self, job: Job) -> None:
        done = await self._work_queues.webhook_deliveries.attempt(Due(*job.data))
        if done is not None and done.again is not None:
            await self._add([done.again])
