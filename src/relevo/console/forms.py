"""A form that a browser sent: read, measured, and proved to come from a page of ours."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from relevo.errors import BodyTooLarge, ForeignForm, InvalidInput

MOST_BYTES = 4 * 1_048_576
_MOST_FIELDS = 500
_OUR_OWN = frozenset({"same-origin", "none"})


def csrf_of(token: str) -> str:
    """What the forms of a session carry: only somebody who has the session's token can say it.

    >>> csrf_of("a") == csrf_of("a"), csrf_of("a") == csrf_of("b")
    (True, False)
    """
    return hmac.new(token.encode(), b"relevo console form", hashlib.sha256).hexdigest()


def fresh_token() -> str:
    return secrets.token_urlsafe(32)


async def posted(request: Request, token: str) -> Mapping[str, str]:
    """The fields of a form; `ForeignForm` unless a page of this session made it."""
    site = request.headers.get("sec-fetch-site", "same-origin")  # every browser of today says it
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if site not in _OUR_OWN or kind != "application/x-www-form-urlencoded":
        raise ForeignForm
    raw = await _read(request)
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=_MOST_FIELDS)
    except (UnicodeDecodeError, ValueError):
        raise InvalidInput(where="form", reason="it cannot be read") from None
    fields = {name: value.replace("\r\n", "\n") for name, value in pairs}
    if not hmac.compare_digest(fields.pop("csrf", "").encode(), csrf_of(token).encode()):
        raise ForeignForm
    if any("\0" in value for value in fields.values()):
        raise InvalidInput(where="form", reason="it contains a NUL character")
    return fields


async def _read(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise BodyTooLarge(what="form", size=size, limit=MOST_BYTES, option="nothing: send it over the API")
        parts.append(part)
    return b"".join(parts)
