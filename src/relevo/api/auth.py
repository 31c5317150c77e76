"""Who asks: the API key of a request, as a `Caller`. A key that was good is not looked up again for a second."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends, Request

from relevo.errors import Unauthenticated
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.keys import Keys

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


async def caller_of(keys: Keys, authorization: bytes | None, request_id: str) -> Caller:
    """The caller behind a header; `Unauthenticated` or `KeyExpired` when there is none."""
    key = key_in(authorization)
    return keys.remembered(key, request_id) or await keys.recognise(key, request_id)


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    for known, value in headers:
        if known == name:
            return value
    return None


async def _caller(request: Request) -> Caller:
    authorization = header(request.scope["headers"], b"authorization")
    return await caller_of(request.app.state.office.keys, authorization, request.state.request_id)


Authenticated = Annotated[Caller, Depends(_caller)]
"""The caller of a route that is not open to everyone."""
