"""`python -m tests.spark.lake.doomed_archive DATABASE LAKE STEP`: an archive job that kills itself right after a step."""

import asyncio
import os
import signal
import sys

from relevo.pipeline.commands.archive import Archive
from relevo.pipeline.lake.lake import Lake
from relevo.work.store.database import Database


async def main(url: str, folder: str, fatal: str) -> None:
    def step(name: str) -> None:
        if name == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    await Archive(Lake(folder), Database(url), step=step).run(10**15, batch=4)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
