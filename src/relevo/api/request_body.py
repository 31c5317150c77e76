"""Reading a request's body: its type, its size, its JSON, its fields; whatever is wrong is said with its place."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from fastapi import Request

from relevo.api.auth import header
from relevo.api.faults import code_of, faults_in, pointer_of
from relevo.api.serving import serving_of
from relevo.contract.problems import Fault
from relevo.errors import BodyTooLarge, InvalidInput, MalformedBody, UnsupportedMediaType

T = TypeVar("T")
Receive = Callable[[], Awaitable[Any]]

_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `(?P<place>.*)`)?$", re.DOTALL)
_SHOWN = 100
_LOOKED_INTO = 65_536


class ClientGone(Exception):
    """The other side closed the connection before it had said everything."""


def require_json(content_type: bytes | None) -> None:
    """Bodies are JSON and say so: a form that a browser sends by itself is not taken for one."""
    given = b"" if content_type is None else content_type
    if given != b"application/json":
        kind, _, parameters = given.partition(b";")
        charset = parameters.replace(b" ", b"").lower()
        if kind.strip().lower() != b"application/json" or charset not in (b"", b"charset=utf-8", b'charset="utf-8"'):
            raise UnsupportedMediaType(given=given.decode("latin-1")[:100])


async def collect(receive: Receive, limit: int, declared: bytes | None, *, what: str, option: str) -> bytes:
    """The whole body, unless it is longer than `limit`; then nothing more of it is read."""
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge(what=what, size=int(declared), limit=limit, option=option)
    event = await receive()
    if event["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = event.get("body", b"")
    if not event.get("more_body", False):
        if len(body) > limit:
            raise BodyTooLarge(what=what, size=len(body), limit=limit, option=option)
        return body
    parts, size = [body], len(body)
    while event.get("more_body", False):
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientGone
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise BodyTooLarge(what=what, size=size, limit=limit, option=option)
    return b"".join(parts)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """The body as its type."""
    try:
        body.decode()  # what is kept raw is not looked into by the decoder: it has to be text all the same
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), decoder.type, body) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody(reason=str(error)[:200]) from None


def plain_or_none(decoder: msgspec.json.Decoder[T], body: bytes) -> T | None:
    """The body as a type that most bodies are of; None when it is not of it, whatever may be wrong with it."""
    try:
        body.decode()
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _refusal(told: str, kind: Any, body: bytes) -> InvalidInput:
    """The decoder's first complaint as a sentence, and all that is wrong with the body beside it."""
    found = _PLACE.match(told)
    assert found is not None
    place, reason = found["place"] or "body", found["reason"]
    tree = _tree(body)
    faults = [] if tree is None else faults_in(tree, kind)
    faults = faults or [Fault(pointer=pointer_of(place), code=code_of(reason), detail=reason)]
    sentence = _value_at(place, tree) + reason
    if "unknown field" in reason:
        sentence = next((fault.detail for fault in faults if fault.code == "UNKNOWN_FIELD"), sentence)
    if code_of(reason) == "NOT_ONE_OF":
        here = pointer_of(place)
        sentence = next((fault.detail for fault in faults if fault.pointer == here), sentence)
    if len(faults) > 1:
        sentence += f" ({len(faults)} faults in all, see `errors`)"
    return InvalidInput(where=place, reason=sentence, faults=faults)


def _tree(body: bytes) -> Any:
    """The body as plain values; None when it is too long to look into, or no JSON after the place that was refused."""
    if len(body) > _LOOKED_INTO:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _value_at(place: str, tree: Any) -> str:
    """What was sent there, for a message that names it; nothing when it is long, or no plain value.

    >>> _value_at("$.messages[1].tier", {"messages": [1, {"tier": "urgent"}]})
    "'urgent': "
    """
    found = tree
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", place):
        try:
            found = found[name] if name else found[int(number)]
        except (KeyError, IndexError, TypeError):
            return ""
    shown = repr(found) if isinstance(found, str | int | float) else ""
    return f"{shown}: " if 0 < len(shown) <= _SHOWN else ""


async def collect_small(request: Request) -> bytes:
    """The whole body of a route of the framework."""
    limit, declared = serving_of(request).settings.small_body_bytes, header(request.scope["headers"], b"content-length")
    return await collect(request.receive, limit, declared, what="body", option="nothing: it is settings, not data")


async def body_of(request: Request, decoder: msgspec.json.Decoder[T], *, optional: bool = False) -> T:
    """The body of a route of the framework as its type; with `optional` an absent one stands for `{}`."""
    raw = await collect_small(request)
    if optional and not raw:
        return decoded(decoder, b"{}")
    require_json(header(request.scope["headers"], b"content-type"))
    return decoded(decoder, raw)
