"""Workers are killed with -9 and replaced, at random, while jobs arrive: nothing is lost, nothing runs twice at once."""

from __future__ import annotations

import asyncio
import time

from chaos.driver import Driver, Story
from chaos.ledger import Ledger

IDLE_MS = 2000


async def kill_workers(
    ledger: Ledger, queue: str, url: str, *, seconds: float, workers: int = 3, seed: int, every: float = 1.0
) -> Story:
    """Load and kills for `seconds`, then quiet until all is done and the fleet has left."""
    # Being killed is no fault of the job here: no number of crashes dead-letters it.
    options = {"claim_min_idle_ms": IDLE_MS, "concurrency": 20, "max_stalled_attempts": 10_000}
    driver = Driver(ledger, queue, url, workers=workers, seed=seed, **options)
    try:
        loading = asyncio.create_task(driver.load(seconds))
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            # Any moment: the dice choose it, and choose it again.
            await asyncio.sleep(every * (0.5 + driver.dice.random()))
            victim = driver.dice.randrange(workers)
            await driver.fleet[victim].ready()  # a process that has not begun to read has nothing to lose
            await driver.replace(victim)
        await loading
        await driver.until_done()
        await driver.close()
    except BaseException:
        driver.abandon()
        raise
    return driver.story
