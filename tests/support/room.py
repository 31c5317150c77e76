"""A served work room for tests: the real HTTP server on a free port, a tenant with a key, and a plain HTTP client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from relevo.api.fast_routes import Asgi
from relevo.api.service import ServiceSettings, WorkService
from relevo.api.settings import ApiSettings
from relevo.console.app import make_console
from relevo.work.caller import ALL_PERMISSIONS, Caller
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.pace import limit

QUEUE = "/v1/scopes/billing/queues/invoices"


class Room:
    """A running service; `owner` is the first tenant's caller, `key` its key, `http` a client that sends it."""

    def __init__(self, service: WorkService, owner: Caller, key: str, http: httpx.AsyncClient) -> None:
        assert service.work_queues is not None
        self.service = service
        self.work_queues: WorkQueues = service.work_queues
        self.owner = owner
        self.key = key
        self.http = http

    async def do(self, method: str, path: str, body: Any = None, *, key: str | None = None, **options: Any) -> Any:
        """The answer's `data`; fails on anything but a success."""
        said = await self.ask(method, path, body, key=key, **options)
        assert said.is_success, f"{method} {path}: {said.status_code} {said.text}"
        return said.json()["data"] if said.content else None

    async def ask(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, **options: Any
    ) -> httpx.Response:
        headers = dict(options.pop("headers", {}))
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        if body is not None:
            options["json"] = body
        return await self.http.request(method, path, headers=headers, **options)

    async def problem(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, str]:
        """Status and code of a refusal."""
        said = await self.ask(method, path, body, **options)
        assert said.headers["content-type"] == "application/problem+json", f"{said.status_code} {said.text}"
        told = said.json()
        assert told["status"] == said.status_code
        assert told["request_id"] == said.headers["x-request-id"]
        assert told["detail"]
        return said.status_code, told["code"]

    async def publish(self, **fields: Any) -> str:
        return (await self.do("POST", f"{QUEUE}/messages", {"body": {}, **fields}))["id"]

    async def claim(self, **fields: Any) -> list[dict[str, Any]]:
        return await self.do("POST", f"{QUEUE}/claim", fields)

    async def state(self, message_id: str) -> str:
        return (await self.do("GET", f"/v1/scopes/billing/messages/{message_id}"))["state"]

    async def tenant(self, slug: str, **options: Any) -> str:
        """One more tenant; returns a key of it."""
        tenant = await self.work_queues.tenants.create(slug)
        return (await self.work_queues.keys.create(self.work_queues.tenants.caller(tenant), "key", **options)).secret


@asynccontextmanager
async def served(
    database_url: str,
    *,
    redis_url: str | None = None,
    agents: bool = False,
    api: ApiSettings | None = None,
    console: Callable[[WorkQueues], Asgi] | None = make_console,
    **work_queues: Any,
) -> AsyncGenerator[Room]:
    """Starts everything and makes the scope `billing` with the queue `invoices`; `work_queues` are further settings of it."""
    settings = ServiceSettings(
        work_queues=WorkSettings(database_url=database_url, redis_url=redis_url, **work_queues),
        api=api,
        port=0,
        agents=agents,
        upgrade=True,
    )
    service = WorkService(settings, console=console)
    try:
        await service.start()
        assert service.work_queues is not None
        tenant = await service.work_queues.tenants.create("acme")
        owner = service.work_queues.tenants.caller(tenant)
        made = await service.work_queues.keys.create(owner, "first", permissions=ALL_PERMISSIONS)
        headers = {"authorization": f"Bearer {made.secret}"}
        async with httpx.AsyncClient(base_url=service.url, headers=headers, timeout=limit(30)) as http:
            room = Room(service, owner, made.secret, http)
            await room.do("POST", "/v1/scopes", {"slug": "billing"})
            await room.do("POST", "/v1/scopes/billing/queues", {"slug": "invoices"})
            yield room
    finally:
        await service.stop()
