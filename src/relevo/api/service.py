"""One process of work queues: messages, agents and HTTP, started and ended in order. `relevo serve` and `relevo up` run it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable

import msgspec

from relevo.agents.agents import Agents
from relevo.api.app import make_app
from relevo.api.fast_routes import Asgi
from relevo.api.key_uses import KeyUses
from relevo.api.server import HttpServer
from relevo.api.settings import ApiSettings
from relevo.work.store import schema
from relevo.work.store.database import Database, answering
from relevo.work.work_queues import WorkQueues, WorkSettings

log = logging.getLogger("relevo.serve")

_LONGEST_END_S = 15.0
"""For what is under way when HTTP has ended."""


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is made of."""

    work_queues: WorkSettings
    api: ApiSettings | None = None
    host: str = "127.0.0.1"
    port: int = 6391
    agents: bool = True
    http: bool = True
    upgrade: bool | None = None
    """Bring the database's tables up to date at the start; None: only where it is a file of ours (SQLite)."""
    shared_port: bool = False
    version: str = "0"


class WorkService:
    """Between `start` and `stop` this process serves work queues."""

    def __init__(self, settings: ServiceSettings, *, console: Callable[[WorkQueues], Asgi] | None = None) -> None:
        self.settings = settings
        self._console = console
        self.work_queues: WorkQueues | None = None
        self._running_agents: Agents | None = None
        self._http: HttpServer | None = None
        self._uses: KeyUses | None = None

    @property
    def url(self) -> str:
        assert self._http is not None
        host = self.settings.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self._http.port}"

    async def start(self) -> None:
        settings = self.settings
        await prepare(settings.work_queues.database_url, upgrade=settings.upgrade)
        self.work_queues = work_queues = await WorkQueues.open(settings.work_queues)
        self._running_agents = running_agents = Agents(work_queues)
        if settings.agents:
            await running_agents.start()
        if settings.http:
            api = settings.api or ApiSettings(metrics_open=is_loopback(settings.host))
            pages = None if self._console is None else self._console(work_queues)
            app = make_app(work_queues, running_agents, api, version=settings.version, console=pages)
            self._http = HttpServer(app, host=settings.host, port=settings.port, shared=settings.shared_port)
            await self._http.start()
            self._uses = KeyUses(work_queues.keys)
            self._uses.start()

    async def stop(self) -> None:
        """HTTP first, so that nothing new begins; then the agents; then the work queues, which wait for their transactions. A
        database that does not answer is not waited for: what is under way then ends as if the node had been killed."""
        if self._http is not None:
            await self._http.stop()
        try:
            async with asyncio.timeout(_LONGEST_END_S):
                await self._end()
        except TimeoutError:
            log.warning("ending with work under way: it was not over within %g s", _LONGEST_END_S)

    async def _end(self) -> None:
        if self._uses is not None:
            await self._uses.stop()
        if self._running_agents is not None and self.settings.agents:
            await self._running_agents.stop()
        if self.work_queues is not None:
            await self.work_queues.close()

    def trouble(self) -> str | None:
        return None if self._http is None else self._http.trouble()


async def prepare(database_url: str, *, upgrade: bool | None = None) -> None:
    """Tables as this program needs them, or a refusal that says what to do."""
    database = Database(database_url)
    try:
        with answering():
            await _prepare(database, upgrade)
    finally:
        await database.close()


async def _prepare(database: Database, upgrade: bool | None) -> None:
    if upgrade or (upgrade is None and database.dialect == "sqlite"):
        before, after = await schema.upgrade(database)
        if before != after:
            done = "were made" if before is None else f"were upgraded from revision {before}"
            log.info("the tables of the database %s, they have revision %s", done, after)
    else:
        await schema.require_head(database)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
