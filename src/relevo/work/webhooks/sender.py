"""Sends one event to one receiver: signed, within a time, and over redirects only to where the first address could have led."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import httpcore

from relevo.errors import BadWebhookUrl, WebhookTargetRefused
from relevo.work.webhooks.signature import HEADER, sign
from relevo.work.webhooks.targets import Guard, GuardedNetwork

TIMEOUT_S = 15.0
MOST_REDIRECTS = 3
EXCERPT = 200
"""Characters of a refusal that are kept: enough to see who refused, too little to be anybody's data store."""

_READ_BYTES = 1_000
_REDIRECTS = frozenset({301, 302, 307, 308})
"""All are followed with the same method and body; 303 asks for a GET, which tells the receiver nothing."""
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")


class Told(NamedTuple):
    """How a receiver answered; `error` is None when it took the event."""

    status: int | None
    error: str | None


class Sender:
    """One for a process. Each connection is made to an address that the guard has just looked at; nothing goes by a proxy."""

    def __init__(
        self,
        guard: Guard,
        *,
        timeout_s: float = TIMEOUT_S,
        network: httpcore.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._timeout_s = timeout_s
        # No connection is kept: a name is looked up, and its address judged, for every event and every hop.
        self._pool = httpcore.AsyncConnectionPool(
            network_backend=GuardedNetwork(guard, network),
            ssl_context=ssl_context,
            max_connections=64,
            max_keepalive_connections=0,
            retries=0,
        )

    async def send(
        self, url: str, body: bytes, secrets: Sequence[str], *, delivery: str, event: str, now_s: int
    ) -> Told:
        """Posts an event. Never raises for what the receiver does: every way to fail is told."""
        headers = {
            "content-type": "application/json",
            "user-agent": "relevo-webhooks",
            "relevo-delivery": delivery,
            "relevo-event": event,
            HEADER.lower(): sign(body, list(secrets), now_s),
        }
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._follow(url, body, headers)
        except (BadWebhookUrl, WebhookTargetRefused) as refused:
            return Told(None, str(refused))
        except TimeoutError:
            return Told(None, f"no answer within {self._timeout_s:g} s")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            return Told(None, _in_short(error))

    async def close(self) -> None:
        await self._pool.aclose()

    async def _follow(self, url: str, body: bytes, headers: dict[str, str]) -> Told:
        target = self._guard.checked(url)
        for _ in range(MOST_REDIRECTS + 1):
            async with self._pool.stream("POST", target, headers=_with_host(target, headers), content=body) as answer:
                status: int = answer.status
                if status not in _REDIRECTS:
                    return Told(status, None if 200 <= status < 300 else await _refusal(answer))
                location = next((value for name, value in answer.headers if name.lower() == b"location"), b"")
            if not location:
                return Told(status, f"{status} without a place to go to")
            target = self._guard.checked(urljoin(target, location.decode("latin-1")))
        return Told(None, f"more than {MOST_REDIRECTS} redirects")


def _with_host(url: str, headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(b"host", urlsplit(url).netloc.encode("idna")), *((k.encode(), v.encode()) for k, v in headers.items())]


async def _refusal(answer: httpcore.Response) -> str:
    """The status, and the first words of what was said with it."""
    said = b""
    with contextlib.suppress(httpcore.NetworkError, httpcore.ProtocolError, httpcore.ReadTimeout):
        async for part in answer.aiter_stream():
            said += part
            if len(said) >= _READ_BYTES:
                break
    words = _UNPRINTABLE.sub(" ", said[:_READ_BYTES].decode("latin-1")).strip()[:EXCERPT]
    return f"it answered {answer.status}: {words}" if words else f"it answered {answer.status}"


def _in_short(error: Exception) -> str:
    words = _UNPRINTABLE.sub(" ", str(error)).strip()[:EXCERPT]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
