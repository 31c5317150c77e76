"""How the client for asyncio sends: connections, retries, errors. sync_sender.py is made from this file."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Self, TypeVar

import httpx

from relevo.arguments import positive, seconds
from relevo.client.request import (
    Call,
    checked_key,
    checked_url,
    may_retry,
    pause_s,
    problem_in,
    trusted_at,
    unreachable,
)

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:6391"


class AsyncSender:
    """Sends calls to work queues.

    What may be sent twice is sent again when a connection breaks or the server's database is away, for `retry_s` seconds:
    everything that reads, complete, fail and extend, every publish and everything that makes something (they carry an
    idempotency key). Errors are the classes of `relevo.errors` whose `code` the server named. Without `url` and `key`,
    RELEVO_URL and RELEVO_KEY are used.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout_s: float = 30.0,
        retry_s: float = 30.0,
        connections: int = 100,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url: str = checked_url(url or os.environ.get("RELEVO_URL") or DEFAULT_URL)
        self._key = checked_key(os.environ.get("RELEVO_KEY") if key is None else key)
        self._timeout_s = seconds("timeout_s", timeout_s)
        self._retry_s = seconds("retry_s", retry_s, zero=True)
        positive("connections", connections)
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            limits=limits,
            timeout=timeout_s,
            transport=transport,
            verify=trusted_at(self.url),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"  # never the key

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, call: Call[T]) -> T:
        """Sends one call, again where that is safe, and reads its answer."""
        attempt, ends, headers = 0, 0.0, call.sent_headers()
        while True:
            error: Exception | None = None
            response: httpx.Response | None = None
            try:
                response = await self._http.request(
                    call.method,
                    call.path,
                    content=call.content(),
                    params=call.params(),
                    headers=headers,
                    timeout=self._timeout_s + call.waits_s,
                )
            except httpx.TransportError as broken:
                error = broken
            if not may_retry(call, error, response):
                break
            now = time.monotonic()
            ends = ends or now + self._retry_s  # counted from the first failure: that one may have been long in coming
            pause = pause_s(attempt, response, ends - now)
            if pause > ends - now:
                break
            await asyncio.sleep(pause)
            attempt += 1
        if response is None:
            assert error is not None
            raise unreachable(self.url, error) from error
        return call.read(response)

    async def ready(self) -> bool:
        """Whether the server can take messages now."""
        try:
            response = await self._http.get("/readyz")
        except httpx.TransportError:
            return False
        if response.status_code in (200, 503):
            return response.status_code == 200
        raise problem_in(response)
