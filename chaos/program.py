"""A worker in a process of its own: `python -m chaos.program <ledger> <queue> <url> <options as JSON>`.

A job's data says what its handler does: `{"seconds": 0.5}` takes that long, `{"block": 0.5}` holds the loop that long,
`{"die": true}` kills the process, as a crash in a C library does.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from chaos.ledger import Ledger
from relevo import Job, Worker


async def work(ledger: Ledger, queue: str, url: str, options: dict[str, Any]) -> None:
    async def handle(job: Job) -> None:
        ledger.write("start", job.id)
        wanted: dict[str, Any] = job.data or {}
        if wanted.get("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(wanted.get("block", 0))  # noqa: ASYNC251 - some handlers do
        try:
            await asyncio.sleep(wanted.get("seconds", 0))  # its length is what the scenario asked for
        except asyncio.CancelledError:
            ledger.write("cut", job.id)
            raise
        ledger.write("end", job.id)

    worker = Worker(queue, handle, redis_url=url, **options)
    worker.started.listen(lambda _: ledger.write("ready"))
    await worker.run()
    ledger.write("left")


def main() -> None:
    path, queue, url, options = sys.argv[1:]
    asyncio.run(work(Ledger(Path(path)), queue, url, json.loads(options)))


if __name__ == "__main__":
    main()
