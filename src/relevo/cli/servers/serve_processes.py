"""Several `relevo serve` processes behind one port."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import Callable
from pathlib import Path

import httpx

from relevo.api.server import listen
from relevo.cli.workers.supervisor import Supervisor, start_process


async def serve_processes(size: int, host: str, port: int, announce: Callable[[str], None]) -> int:
    """Keeps `size` processes running until a signal, called as we were called; `announce` hears the URL once it answers."""
    with (
        listen(host, port, shared=True) as reserved,  # held, never listened on: the port stays ours
        tempfile.TemporaryDirectory(prefix="relevo-metrics-") as numbers,
    ):
        port = reserved.getsockname()[1]
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": numbers}

        async def start(_: int) -> Process:
            return await start_process("relevo", *_arguments(port), env=environment)

        def ended(process: Process) -> None:
            """Gauges of a process that is gone must not be counted on."""
            for file in Path(numbers).glob(f"gauge_live*_{process.pid}.db"):
                file.unlink(missing_ok=True)

        announcing = asyncio.ensure_future(_say_when_ready(f"http://{host}:{port}", announce))
        try:
            return await Supervisor(start, size, quiet=True, ended=ended).run()
        finally:
            announcing.cancel()


async def _say_when_ready(url: str, announce: Callable[[str], None]) -> None:
    async with httpx.AsyncClient() as client:
        while True:
            try:
                if (await client.get(f"{url}/healthz")).status_code == 200:
                    break
            except httpx.TransportError:
                await asyncio.sleep(0.05)
    announce(url)


def _arguments(port: int) -> list[str]:
    """Our own arguments, for one process and the port that was found."""
    words, kept = iter(sys.argv[1:]), list[str]()
    for word in words:
        name = word.partition("=")[0]
        if name in ("--processes", "--port"):
            if "=" not in word:
                next(words, None)
        elif name not in ("--upgrade", "--no-upgrade"):
            kept.append(word)
    return [*kept, "--processes", "1", "--port", str(port), "--member", "--no-upgrade"]
