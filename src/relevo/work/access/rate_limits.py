"""Requests a second for each key that has a limit: a bucket of tokens, in Redis when there is one, else in this process.

With Redis the bucket is shared by all nodes. A node fetches a tenth of a second's worth at a time, so a busy key costs ten
questions a second and not one for each request. While Redis is away each node counts for itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import script
from relevo.errors import RelevoError, TooManyRequests

log = logging.getLogger("relevo.access")

TAKE = script("take_tokens", __name__)

_PATIENCE_S = 0.25
_AWAY_S = 1.0
_MOST_KNOWN = 10_000


@dataclass
class _Bucket:
    """One key's tokens in this process: a whole bucket of our own, or what was fetched from the shared one."""

    tokens: float
    at: float
    refused_until: float = 0.0


class RateLimits:
    """The buckets as one process uses them."""

    def __init__(self, redis_url: str | None) -> None:
        self._address = None if redis_url is None else Address.parse(redis_url)
        self._installation = ""
        self._link: Link | None = None
        self._fetched: dict[str, _Bucket] = {}
        self._own: dict[str, _Bucket] = {}
        self._fetching: dict[str, asyncio.Lock] = {}
        self._away_until = 0.0

    def open(self, installation: str) -> None:
        self._installation = installation
        if self._address is not None:
            tag = f"{{{installation}}}".encode()
            self._link = Link(self._address, tag, purpose="limits", scripts=(TAKE,), wait=_PATIENCE_S, patience=5.0)

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()

    async def take(self, key: str, rate: int, burst: int) -> None:
        """Takes one token of a key; `TooManyRequests` when there is none."""
        now = time.monotonic()
        if self._link is None or now < self._away_until:
            self._take_here(key, rate, burst, now)
            return
        fetched = self._fetched.get(key)
        if fetched is not None and fetched.tokens >= 1 and now - fetched.at < 1.0:
            fetched.tokens -= 1
            return
        lock = self._fetching.setdefault(key, asyncio.Lock())
        async with lock:  # whoever comes meanwhile takes of what the first one fetched
            fetched = self._fetched.get(key)
            if fetched is not None and fetched.tokens >= 1 and now - fetched.at < 1.0:
                fetched.tokens -= 1
                return
            if fetched is not None and time.monotonic() < fetched.refused_until:
                raise _refusal(key, rate, fetched.refused_until - time.monotonic())
            await self._fetch(key, rate, burst)

    async def _fetch(self, key: str, rate: int, burst: int) -> None:
        assert self._link is not None
        name = f"rw:{{{self._installation}}}:limit:{key}".encode()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                reply: Reply = await self._link.run(TAKE, [name], rate, burst, max(1, min(rate // 10, burst)))
        except (RelevoError, OSError, TimeoutError) as error:
            log.debug("keys are limited by each node for itself: %s", error)
            self._away_until = time.monotonic() + _AWAY_S
            self._take_here(key, rate, burst, time.monotonic())
            return
        taken, wait_ms = int(reply[0]), int(reply[1])
        now = time.monotonic()
        if len(self._fetched) >= _MOST_KNOWN:
            self._fetched.clear()
        if taken == 0:
            self._fetched[key] = _Bucket(0, now, now + wait_ms / 1000)
            raise _refusal(key, rate, wait_ms / 1000)
        self._fetched[key] = _Bucket(taken - 1, now)

    def _take_here(self, key: str, rate: int, burst: int, now: float) -> None:
        bucket = self._own.get(key)
        if bucket is None:
            if len(self._own) >= _MOST_KNOWN:
                self._own.clear()
            bucket = self._own[key] = _Bucket(burst, now)
        bucket.tokens = min(burst, bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now
        if bucket.tokens < 1:
            raise _refusal(key, rate, (1 - bucket.tokens) / rate)
        bucket.tokens -= 1


def _refusal(key: str, rate: int, wait_s: float) -> TooManyRequests:
    return TooManyRequests(key=key, rate=rate, wait_s=max(1, int(wait_s * 1000 + 0.999)) / 1000)
