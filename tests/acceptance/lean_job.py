"""A producer and a worker in one program, run where only the packages of the base install are: prints what the job returned."""

import asyncio
import sys

from relevo import Job, Queue, Worker


async def greet(job: Job) -> str:
    return f"Hello, {job.data['name']}!"


async def main(url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=url) as queue, Worker(queue_name, greet, redis_url=url, store_results=True):
        job = await queue.add("greet", {"name": "Ada"})
        sys.stdout.write(f"{await job.wait_for_result(timeout=30)}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
