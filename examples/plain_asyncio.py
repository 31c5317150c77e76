"""The smallest whole program: a typed task, a producer and a worker in one asyncio process.

relevo up                                # or any Redis
RELEVO_REDIS_URL=redis://127.0.0.1:6390 python examples/plain_asyncio.py
"""

import asyncio
import os
from datetime import timedelta

from relevo import Queue, Tasks, Worker

URL = os.environ.get("RELEVO_REDIS_URL", "redis://127.0.0.1:6379")

tasks: Tasks[None] = Tasks()


@tasks.task(attempts=3)
async def word_count(text: str, *, unit: str = "words") -> str:
    # Whatever this raises means "try again", three times in all.
    return f"{len(text.split())} {unit}"


@tasks.task()
def shout(text: str) -> str:
    # A plain function: it runs on a thread, and may block.
    return text.upper()


async def main() -> None:
    async with Queue("texts", redis_url=URL) as queue:
        # A type checker knows these calls: `word_count.enqueue(queue, 7)` would be an error.
        counted = await word_count.enqueue(queue, "a job is a row in a stream")
        later = await shout.options(delay=timedelta(milliseconds=200)).enqueue(queue, "and this one waited")

        # Workers usually run elsewhere (`relevo worker plain_asyncio:tasks --queue texts`); one here does as well. It stops
        # at the end of the block, after what it runs is finished.
        async with Worker("texts", tasks, redis_url=URL, store_results=True):
            print(await counted.wait_for_result())
            print(await later.wait_for_result())


if __name__ == "__main__":
    asyncio.run(main())
