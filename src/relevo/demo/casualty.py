"""A worker in a process of its own, made to be killed in the middle of its jobs.

`python -m relevo.demo.casualty URL QUEUE IDLE_MS` prints the id of each job it starts.
"""

from __future__ import annotations

import asyncio
import sys

from relevo.engine.job.job import Job
from relevo.engine.worker import Worker


async def hold_for_ever(job: Job) -> None:
    sys.stdout.write(f"{job.id}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    url, queue, idle_ms = sys.argv[1:]
    asyncio.run(Worker(queue, hold_for_ever, redis_url=url, claim_min_idle_ms=int(idle_ms), concurrency=8).run())


if __name__ == "__main__":
    main()
