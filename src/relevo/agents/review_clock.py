"""Every 30 seconds: lets time pass for reviews: lapsed holds, reminders, escalations, time-outs."""

from __future__ import annotations

from relevo.agents.agent import Batch
from relevo.work.caller import Caller
from relevo.work.work_queues import WorkQueues


class ReviewClock:
    """Looks at the reviews that are due."""

    name = "review_clock"
    every_s = 30.0
    about = "reminds, escalates and ends reviews in time"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 100) -> None:
        self._work_queues = work_queues
        self._batch = batch
        self._caller = Caller.system(self.name)

    async def work(self) -> Batch:
        count = await self._work_queues.reviews.tick(self._caller, self._batch)
        return Batch(count, more=count == self._batch)
