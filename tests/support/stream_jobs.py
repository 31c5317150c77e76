"""Jobs of stream queues that the HTTP side is told of."""

from __future__ import annotations

import asyncio

from relevo import Job, Queue, Worker
from tests.pace import limit


async def dead_job(url: str, queue_name: str) -> str:
    """The id of a dead letter of a stream queue."""

    async def fail(_: Job) -> None:
        raise ValueError("no use")

    async with Queue(queue_name, redis_url=url) as queue, Worker(queue_name, fail, redis_url=url) as worker:
        settled = asyncio.ensure_future(worker.settled.wait_for(timeout=limit(30)))
        await queue.add("send", {}, attempts=1)
        await settled
        return (await queue.dead_letters.peek(1))[0].dlq_id
