"""A worker whose settled jobs are counted from its start, so that a test may wait for a total."""

import asyncio
import time
from typing import Any

from relevo import Handler, Worker
from relevo.engine.settling.settle_request import SettleResult
from tests.pace import limit


def kept_idle_ms() -> int:
    """An idle limit that a worker keeps up with on this machine, however busy it is."""
    return int(limit(1) * 1000)


class WatchedWorker(Worker):
    """`settled` tells of one flush; `total` is the sum of all."""

    def __init__(self, queue_name: str, handler: Handler, **options: Any) -> None:
        super().__init__(queue_name, handler, **options)
        self.total = SettleResult()
        self._grown = asyncio.Event()
        self.settled.listen(self._add_up)

    async def until(
        self, *, done: int = 0, retried: int = 0, dead: int = 0, lost: int = 0, timeout: float = 20.0
    ) -> SettleResult:
        """The total, once every number in it is reached."""
        async with asyncio.timeout(limit(timeout)):
            while (
                self.total.done < done
                or self.total.retried < retried
                or self.total.dead < dead
                or self.total.lost < lost
            ):
                self._grown.clear()
                await self._grown.wait()
        return self.total

    def _add_up(self, settlement: SettleResult) -> None:
        self.total.done += settlement.done
        self.total.retried += settlement.retried
        self.total.dead += settlement.dead
        self.total.lost += settlement.lost
        self._grown.set()

    async def outlast_the_idle_limit(self) -> None:
        """Until whoever was to lose his lease would have lost it, by the server's clock; renewals come several times in it."""
        began = time.monotonic()
        while time.monotonic() - began < 2 * self.held.idle_s:
            await self.leases.renewed.wait_for(timeout=limit(20))


async def until_done(*workers: WatchedWorker, done: int, timeout: float = 20.0) -> None:
    """Waits until the workers have done so many jobs together."""
    grown = asyncio.Event()
    stops = [worker.settled.listen(lambda _: grown.set()) for worker in workers]
    try:
        async with asyncio.timeout(limit(timeout)):
            while sum(worker.total.done for worker in workers) < done:
                grown.clear()
                await grown.wait()
    finally:
        for stop in stops:
            stop()
