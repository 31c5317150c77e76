"""A handler that a test holds back: jobs begin, and end when they are let go."""

import asyncio

from relevo import Job, Queue
from relevo.engine.settling.delivery import Delivery
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker

WARM_UP = 200


class HeldRuns(Runs):
    """Runs that wait for `let_go`; the ids of those that ended are in `ended`, of those that were cancelled in `cut`."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[str] = []
        self.cut: list[str] = []
        self._gate = asyncio.Event()

    def let_go(self) -> None:
        self._gate.set()

    async def __call__(self, job: Job) -> None:
        if job.name == "warm-up":
            return
        await super().__call__(job)
        try:
            await self._gate.wait()
        except asyncio.CancelledError:
            self.cut.append(job.id)
            raise
        self.ended.append(job.id)

    async def prefetch(self, queue: Queue, worker: WatchedWorker, count: int) -> tuple[list[Job], list[Delivery]]:
        """Adds `count` jobs that are held; returns them, and those the worker has read but not begun.

        Only a worker with quick handlers reads ahead, so quick jobs come first. `worker` has one slot and reads a few.
        """
        warm_ups = [{"name": "warm-up", "data": None}] * WARM_UP
        jobs = await queue.add_bulk([*warm_ups, *({"name": "held", "data": at} for at in range(count))])
        await self.until(1)
        await worker.until(done=WARM_UP)
        while not (unstarted := [each for each in worker.held.values() if not each.started]):
            await worker.reader.batches.wait_for()
        return jobs[WARM_UP:], unstarted
