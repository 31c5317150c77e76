"""Who asks, and whom: the API key of a request, as a `Caller`, and the work queues that are served.

A key that was good is not looked up again for a second.
A key without grants and limits, the usual one, pays one look into a dict for there being such things.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from fastapi import Depends, Request
from msgspec import structs

from relevo.api.serving import serving_of
from relevo.contract.keys import Permission
from relevo.errors import BodyTooLarge, Unauthenticated
from relevo.wire.ids import IdMint
from relevo.work.access.key_policy import KeyPolicy, narrowed
from relevo.work.caller import Caller
from relevo.work.work_queues import WorkQueues

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,40}")

_mint = IdMint()


def request_id_of(given: bytes | None) -> str:
    """The caller's own `X-Request-Id` where it is short and plain, else a new one: it goes into logs and answers as it is."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return _mint()


def key_in(authorization: bytes | None) -> bytes:
    """The key of an `Authorization: Bearer …` header."""
    if authorization is None:
        raise Unauthenticated
    kind, _, key = authorization.partition(b" ")
    key = key.strip()
    if kind.lower() != b"bearer" or not key or len(key) > 200:
        raise Unauthenticated
    return key


async def caller_of(
    work_queues: WorkQueues, authorization: bytes | None, request_id: str, method: str, parts: Sequence[str]
) -> Caller:
    """The caller behind a header, as far as their key and its grants reach at this address (split at its slashes).
    `Unauthenticated` or `KeyExpired` when there is none, `TooManyRequests` when they ask too often."""
    key = key_in(authorization)
    caller = work_queues.keys.remembered(key, request_id) or await work_queues.keys.recognise(key, request_id)
    policy = work_queues.keys.policy(key)
    return caller if policy is None else await _special(work_queues, caller, policy, method, parts)


async def _special(
    work_queues: WorkQueues, caller: Caller, policy: KeyPolicy, method: str, parts: Sequence[str]
) -> Caller:
    limits = policy.limits
    if limits.requests_per_s is not None:
        burst = limits.burst or limits.requests_per_s
        await work_queues.rate_limits.take(caller.actor.removeprefix("key:"), limits.requests_per_s, burst)
    if limits.max_body_bytes is not None or limits.acts_for_people:
        caller = structs.replace(caller, max_body_bytes=limits.max_body_bytes, acts_for_people=limits.acts_for_people)
    if not policy.grants or len(parts) < 3 or parts[2] != "scopes":
        return caller
    scope = parts[3] if len(parts) > 3 else None
    queue = parts[5] if len(parts) > 5 and parts[4] == "queues" else None
    return narrowed(caller, policy.grants, scope, queue, needed(method, parts))


def needed(method: str, parts: Sequence[str]) -> Permission:
    """What a request to this address takes. It decides nothing by itself: it only says in which of several queues that a key
    was granted different things it is to look.

    >>> (
    ...     needed("POST", "/v1/scopes/hr/messages/01J9/complete".split("/")),
    ...     needed("GET", "/v1/scopes/hr/messages".split("/")),
    ... )
    ('consume', 'view')
    """
    if method in ("GET", "HEAD"):
        return "view"
    if len(parts) > 6 and parts[4] == "messages" and parts[6] in _CONSUMING:
        return "consume"
    return "review" if len(parts) > 4 and parts[4] == "reviews" else "manage"


_CONSUMING = frozenset({"complete", "fail", "release", "extend", "chunks"})


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    for known, value in headers:
        if known == name:
            return value
    return None


async def _work_queues(request: Request) -> WorkQueues:
    return serving_of(request).work_queues


ThisWorkQueues = Annotated[WorkQueues, Depends(_work_queues)]
"""The work queues that are served here, for a route that needs it."""


async def authenticate(request: Request, work_queues: ThisWorkQueues) -> Caller:
    """The caller of a request, asked for once: a key's rate limit counts requests."""
    known: Caller | None = getattr(request.state, "caller", None)
    if known is not None:
        return known
    headers = request.scope["headers"]
    authorization = header(headers, b"authorization")
    parts = request.scope["path"].split("/")
    caller = await caller_of(work_queues, authorization, request.state.request_id, request.method, parts)
    if caller.max_body_bytes is not None:
        declared = header(headers, b"content-length") or b"0"
        if declared.isdigit() and int(declared) > caller.max_body_bytes:
            raise BodyTooLarge(
                what="body", size=int(declared), limit=caller.max_body_bytes, option="the key's `max_body_bytes`"
            )
    request.state.caller = caller
    return caller


Authenticated = Annotated[Caller, Depends(authenticate)]
"""The caller of a route that is not open to everyone."""
