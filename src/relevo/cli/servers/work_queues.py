"""Work queues as a part of `relevo up`: SQLite in the data folder, the order in the embedded server, a first tenant and key."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from relevo import version
from relevo.cli.servers.work_service import DEFAULT_PORT
from relevo.cli.work.target import KEY_FILE
from relevo.errors import CannotListen

if TYPE_CHECKING:
    from relevo.api.service import WorkService
    from relevo.cli.servers.embedded_redis import EmbeddedRedis

TENANT = "main"


class ServedWorkQueues:
    """Served in this process. The first start makes a tenant and a key; the key stays in a file for its owner's eyes."""

    name = "work queues"

    def __init__(self, folder: Path, server: EmbeddedRedis, port: int = DEFAULT_PORT) -> None:
        self._folder = folder
        self._server = server
        self._port = port
        self._service: WorkService | None = None
        self._moved = False
        self._new_key = False

    @property
    def key_file(self) -> Path:
        return self._folder / KEY_FILE

    @property
    def url(self) -> str:
        assert self._service is not None
        return self._service.url

    async def start(self) -> None:
        try:
            self._service = await self._started(self._port)
        except CannotListen:
            self._service = await self._started(0)
            self._moved = True
        if not self.key_file.exists():
            await self._make_key(self._service)

    async def stop(self) -> None:
        if self._service is not None:
            await self._service.stop()

    def where(self) -> list[tuple[str, str]]:
        url = f"{self.url}  (port {self._port} is taken)" if self._moved else self.url
        made = "made just now" if self._new_key else "made at the first start"
        return [
            ("work queues", url),
            ("their key", f"{self.key_file}  ({made})"),
            ("console", f"{self.url}/console  (sign in with that key and your name)"),
            ("API reference", f"{self.url}/docs"),
        ]

    def trouble(self) -> str | None:
        return None if self._service is None else self._service.trouble()

    def how_to(self) -> str:
        """The first steps, to be pasted into another terminal."""
        call = 'curl -sS -H "Authorization: Bearer $RELEVO_KEY" -H "Content-Type: application/json"'
        queue = f"{self.url}/v1/scopes/billing/queues"
        return f"""
Work queues, over HTTP:

  export RELEVO_URL={self.url} RELEVO_KEY=$(cat {shlex.quote(str(self.key_file))})
  {call} {self.url}/v1/scopes -d '{{"slug": "billing"}}'
  {call} {queue} -d '{{"slug": "invoices"}}'
  {call} {queue}/invoices/messages -d '{{"body": {{"order": 17}}}}'
  {call} {queue}/invoices/claim -d '{{"wait_s": 5}}'

or with `relevo work publish billing invoices '{{"order": 18}}'`; {self.url}/docs has the rest."""

    async def _started(self, port: int) -> WorkService:
        from relevo.api.service import ServiceSettings, WorkService
        from relevo.console.app import make_console
        from relevo.work.work_queues import WorkSettings

        database = f"sqlite:///{(self._folder / 'work.db').resolve()}"
        work_queues = WorkSettings(database_url=database, redis_url=self._server.server.url)
        service = WorkService(
            ServiceSettings(work_queues=work_queues, port=port, version=version()), console=make_console
        )
        try:
            await service.start()
        except BaseException:
            await service.stop()
            raise
        return service

    async def _make_key(self, service: WorkService) -> None:
        from relevo.work.access.api_keys import first_key

        assert service.work_queues is not None
        made = await first_key(service.work_queues.database, TENANT, service.work_queues.now_ms, operator=True)
        part = self.key_file.with_suffix(".part")
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(made.secret + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.key_file)  # whole or not at all
        self._new_key = True
