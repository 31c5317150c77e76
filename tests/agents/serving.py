"""A process with an office and its agents, to be killed: `python -m tests.agents.serving database_url [redis_url]`."""

import asyncio
import sys

from relevo.agents.maintenance import Roster
from relevo.work.work_queues import Office, OfficeSettings


async def serve(database_url: str, redis_url: str | None) -> None:
    async with (
        await Office.open(OfficeSettings(database_url=database_url, redis_url=redis_url)) as office,
        Roster(office) as roster,
    ):
        sys.stdout.write(f"{roster.node}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
