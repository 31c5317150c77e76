"""A process with an installation and its agents, to be killed: `python -m tests.agents.serving database_url [redis_url]`."""

import asyncio
import sys

from relevo.agents.agents import Agents
from relevo.work.work_queues import WorkQueues, WorkSettings


async def serve(database_url: str, redis_url: str | None) -> None:
    async with (
        await WorkQueues.open(WorkSettings(database_url=database_url, redis_url=redis_url)) as work_queues,
        Agents(work_queues) as running_agents,
    ):
        sys.stdout.write(f"{running_agents.node}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
