"""`Idempotency-Key`: a POST that carries one is done once, however often it is sent, and answered alike each time.

Every POST that the framework answers takes the header, because its route is an `IdempotentRoute`; `WITHOUT` names those that do
not, and why. What is kept, for how long, and what a crash leaves is said in `relevo.work.store.kept_answers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from relevo.api.auth import authenticate, header
from relevo.api.problems import document_also
from relevo.api.request_body import Receive, collect_small
from relevo.api.responses import JSON, encode
from relevo.api.serving import serving_of
from relevo.errors import IdempotencyKeyBusy, IdempotencyKeyReused, IdempotentAnswerLost, InvalidInput
from relevo.work.store.kept_answers import KEPT_S, Answer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
LONGEST = 255

WITHOUT = {
    "append_chunk": "a chunk has its `number`",
    "try_rule": "it changes nothing",
    "preview_review_pattern": "it changes nothing",
}
"""POSTs that take no key, by their operation ids. (Publishing has a key for each message; claims have their tokens.)"""

_PROBLEMS = (IdempotencyKeyReused, IdempotencyKeyBusy, IdempotentAnswerLost)

_PARAMETER: dict[str, Any] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "a text of your own, such as a UUID: the same key does the same request once, "
    f"and answers it alike for {KEPT_S // 3600} hours",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": "^[!-~]+$"},
}
_ANSWERED = {"description": "`true` when this is the answer of an earlier request", "schema": {"type": "string"}}


class IdempotentRoute(APIRoute):
    """A route whose POST looks for the header."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if options.get("methods") in (["POST"], {"POST"}) and options.get("operation_id") not in WITHOUT:
            _document(options)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if "POST" not in (self.methods or ()) or self.operation_id in WITHOUT:
            return handle

        async def once(request: Request) -> Response:
            key = header(request.scope["headers"], b"idempotency-key")
            return await handle(request) if key is None else await _once(request, _readable(key), handle)

        return once


def router(prefix: str = "", *, tag: str) -> APIRouter:
    """A router of the framework, whose POSTs take an idempotency key."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=IdempotentRoute)


async def _once(request: Request, key: str, handle: Callable[[Request], Coroutine[Any, Any, Response]]) -> Response:
    work_queues = serving_of(request).work_queues
    caller = await authenticate(request, work_queues)
    body = await collect_small(request)
    fresh: list[Response] = []

    async def act() -> Answer:
        fresh[:] = [await handle(Request(request.scope, _given(body)))]
        return Answer(fresh[0].status_code, _without_secret(bytes(fresh[0].body)))

    answer, replayed = await work_queues.kept_answers.once(caller, key, _fingerprint(request, body), act)
    if not replayed:
        return fresh[0]
    return Response(answer.body, answer.status, media_type=JSON, headers={REPLAYED: "true"})


def _given(body: bytes) -> Receive:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _fingerprint(request: Request, body: bytes) -> str:
    """What makes two requests the same one: where they go, for whom, and what they say."""
    person = header(request.scope["headers"], b"relevo-person") or b""
    parts = (request.method.encode(), request.scope["path"].encode(), request.scope["query_string"], person, body)
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _readable(key: bytes) -> str:
    text = key.decode("latin-1")
    if not 0 < len(text) <= LONGEST or not all("!" <= sign <= "~" for sign in text):
        reason = f"write 1 to {LONGEST} printable ASCII characters without spaces, such as a UUID"
        raise InvalidInput(where=HEADER, reason=reason)
    return text


def _without_secret(body: bytes) -> str:
    """An answer as it is kept. A secret is shown once, to whoever asked first: nobody finds it in the database.

    >>> _without_secret(b'{"data":{"key":{"id":"01J9"},"secret":"rlv_01J9_abc"}}')
    '{"data":{"key":{"id":"01J9"},"secret":""}}'
    """
    told: Any = msgspec.json.decode(body) if body else {}
    data: Any = told.get("data")
    if isinstance(data, dict) and "secret" in data:
        data["secret"] = ""
        body = encode(told)
    return body.decode()


def _document(options: dict[str, Any]) -> None:
    extra: dict[str, Any] = options.get("openapi_extra") or {}
    if _PARAMETER in extra.get("parameters", ()):
        return  # the route of a router that is included: it was done there
    options["openapi_extra"] = {**extra, "parameters": [*extra.get("parameters", ()), _PARAMETER]}
    responses: dict[int | str, dict[str, Any]] = options.get("responses") or {}
    responses = document_also(responses, _PROBLEMS)
    good = options["status_code"]
    responses[good] = {**responses[good], "headers": {REPLAYED: _ANSWERED}}
    options["responses"] = responses
