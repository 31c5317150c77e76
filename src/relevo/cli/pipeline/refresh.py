"""The refresh as a task: `relevo worker relevo.cli.pipeline.refresh:tasks -q pipeline`, and a schedule that adds it.

It runs `relevo pipeline refresh` in a process of its own: a JVM does not stay in the worker, and what it needs is given back.
"""

from __future__ import annotations

import asyncio
import os
import sys

from relevo.engine.tasks import Tasks
from relevo.errors import RefreshFailed

tasks: Tasks[None] = Tasks()


@tasks.task("relevo.pipeline.refresh", attempts=3)
async def refresh(lake: str, page: str | None = None, queues: str = "*", redis_url: str | None = None) -> str:
    """Ingests, builds and writes the page. A run that is cut short harms nothing: the next one goes on."""
    arguments = ["pipeline", "refresh", "--lake", lake, "--queues", queues, "--json", *(["--to", page] if page else [])]
    environment = dict(os.environ)
    if redis_url is not None:
        environment["RELEVO_REDIS_URL"] = redis_url
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "relevo",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:  # cancelled, or the worker is leaving
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = (err or out).decode(errors="replace").strip().splitlines()
        raise RefreshFailed(code=process.returncode, said=lines[-1] if lines else "nothing")
    return out.decode(errors="replace")
