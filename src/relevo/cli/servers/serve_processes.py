"""Several `relevo serve` processes behind one port, and the one that looks after them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path

import httpx

from relevo.api.server import listen
from relevo.cli.workers.supervisor import how_it_ended

log = logging.getLogger("relevo.serve")

_LONGEST_PAUSE_S = 10.0
_HEALTHY_AFTER_S = 30.0


class Processes:
    """Keeps `size` processes running until a signal; what crashes is started again. They are called as we were called."""

    def __init__(self, size: int, host: str, port: int, *, announce: Callable[[str], None]) -> None:
        self._size = size
        self._host = host
        self._port = port
        self._announce = announce
        self._ending = asyncio.Event()
        self._alive: dict[int, Process] = {}

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ending.set)
        reserved = listen(self._host, self._port, shared=True)  # held, never listened on: the port stays ours
        self._port = reserved.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="relevo-metrics-") as numbers:
            environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": numbers}
            places = [asyncio.create_task(self._keep(number, environment)) for number in range(self._size)]
            answering = asyncio.create_task(self._say_when_ready())
            ending = asyncio.create_task(self._ending.wait())
            await asyncio.wait({ending, *places}, return_when=asyncio.FIRST_COMPLETED)
            self._ending.set()
            answering.cancel()
            for process in self._alive.values():
                if process.returncode is None:
                    process.send_signal(signal.SIGTERM)
            codes = await asyncio.gather(*places)
        reserved.close()
        return max(codes)

    async def _keep(self, number: int, environment: dict[str, str]) -> int:
        """One place; returns how its last process ended, 0 for in order."""
        crashes = 0
        while not self._ending.is_set():
            begun = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "relevo", *_arguments(self._port), stdin=PIPE, env=environment, process_group=0
            )
            self._alive[number] = process
            if self._ending.is_set():
                process.send_signal(signal.SIGTERM)
            code = await process.wait()
            _forget_numbers(environment["PROMETHEUS_MULTIPROC_DIR"], process.pid)
            if self._ending.is_set():
                return 0 if code in (0, -signal.SIGTERM) else 1
            crashes = 0 if time.monotonic() - begun > _HEALTHY_AFTER_S else crashes + 1
            pause = min(0.2 * 2**crashes, _LONGEST_PAUSE_S)
            log.error("process %d %s; it is started again in %.1f s", process.pid, how_it_ended(code), pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._ending.wait()
        return 0

    async def _say_when_ready(self) -> None:
        url = f"http://{self._host}:{self._port}"
        async with httpx.AsyncClient() as client:
            while True:
                try:
                    if (await client.get(f"{url}/healthz")).status_code == 200:
                        break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        self._announce(url)


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


def _forget_numbers(folder: str, pid: int) -> None:
    """Gauges of a process that is gone must not be counted on."""
    for file in Path(folder).glob(f"gauge_live*_{pid}.db"):
        file.unlink(missing_ok=True)
