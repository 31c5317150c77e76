"""A handler for jobs of lanes: remembers what began and ended in each lane, and how many ran there at once."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from relevo import Job
from relevo.engine.consuming.job_context import DELIVERY
from tests.pace import limit
from tests.patience import turn


class LaneRuns:
    """Jobs are `{"lane": ..., "n": ...}`. `fail(job)` returns the error a run raises, or None."""

    def __init__(self, *, fail: Callable[[Job], Exception | None] | None = None, held: bool = False) -> None:
        self.began: dict[str, list[int]] = defaultdict(list)
        self.ended: dict[str, list[int]] = defaultdict(list)
        self.times: dict[str, list[float]] = defaultdict(list)
        self.turns_ms: dict[str, list[int]] = defaultdict(list)
        """When each job came into the stream, by the server's clock: a busy machine may run it much later."""
        self.most: Counter[str] = Counter()
        self.order: list[str] = []
        self.attempts: list[int] = []
        self._now: Counter[str] = Counter()
        self._fail = fail
        self._gate = asyncio.Event()
        self._more = asyncio.Condition()
        if not held:
            self._gate.set()

    def let_go(self) -> None:
        self._gate.set()

    async def __call__(self, job: Job) -> Any:
        lane, number = job.data["lane"], job.data["n"]
        self._now[lane] += 1
        try:
            self.most[lane] = max(self.most[lane], self._now[lane])
            async with self._more:
                self.began[lane].append(number)
                self.order.append(lane)
                self.times[lane].append(time.monotonic())
                self.turns_ms[lane].append(entry_ms())
                self.attempts.append(job.attempt)
                self._more.notify_all()
            await turn()  # a place that is given twice shows here
            await self._gate.wait()
            error = self._fail(job) if self._fail is not None else None
            if error is not None:
                raise error
            self.ended[lane].append(number)
        finally:
            self._now[lane] -= 1
            async with self._more:
                self._more.notify_all()

    async def until_began(self, count: int) -> None:
        await self._until(lambda: len(self.order) >= count)

    async def until_ended(self, count: int) -> None:
        await self._until(lambda: sum(map(len, self.ended.values())) >= count)

    async def _until(self, true: Callable[[], bool]) -> None:
        async with self._more:
            await asyncio.wait_for(self._more.wait_for(true), limit(20))


def laned(lane: str, count: int, *, start: int = 0, **options: Any) -> list[dict[str, Any]]:
    """Jobs of one lane for `add_bulk`, numbered in their order."""
    return [
        {"name": "job", "data": {"lane": lane, "n": number}, "lane": lane, **options}
        for number in range(start, start + count)
    ]


def entry_ms() -> int:
    """When the entry of the job that runs here came into the stream, by the server's clock."""
    delivery = DELIVERY.get()
    assert delivery is not None, "called outside of a handler"
    return int(delivery.entry_id.partition(b"-")[0])
