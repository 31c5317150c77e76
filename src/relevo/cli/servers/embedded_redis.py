"""The embedded server as a part of `relevo up`: what all other parts stand on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from relevo.broker.embedded import EmbeddedServer, Fsync
from relevo.errors import PortTaken


class EmbeddedRedis:
    """The server all other parts stand on."""

    name = "server"

    def __init__(self, folder: Path, port: int, fsync: Fsync) -> None:
        self.server = EmbeddedServer(folder, port=port, fsync=fsync)
        self._folder, self._port = folder, port
        self._fsync: Fsync = fsync
        self._moved = False

    async def start(self) -> None:
        try:
            await asyncio.to_thread(self.server.start)
        except PortTaken:
            self.server = EmbeddedServer(self._folder, fsync=self._fsync)
            await asyncio.to_thread(self.server.start)
            self._moved = True

    async def stop(self) -> None:
        await asyncio.to_thread(self.server.stop)

    def where(self) -> list[tuple[str, str]]:
        url = f"{self.server.url}  (port {self._port} is taken)" if self._moved else self.server.url
        return [("redis url", url), ("data folder", str(self.server.folder)), ("server log", str(self.server.log))]

    def trouble(self) -> str | None:
        return None if self.server.running else f"it does not answer; see {self.server.log}"
