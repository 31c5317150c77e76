"""The OpenAPI document: FastAPI's routes, with bodies and answers described by the very types that decode and encode them."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any, get_args, get_origin

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from relevo.api.problems import Internal, documented
from relevo.api.responses import JSON
from relevo.contract.pages import Meta
from relevo.contract.problems import Problem
from relevo.errors import (
    BadCursor,
    BodyTooLarge,
    InvalidInput,
    KeyExpired,
    MalformedBody,
    NotFound,
    PermissionDenied,
    StoreUnavailable,
    TooManyRequests,
    Unauthenticated,
    UnsupportedMediaType,
    WorkError,
)

ALWAYS: tuple[type[WorkError], ...] = (
    Unauthenticated,
    KeyExpired,
    PermissionDenied,
    NotFound,
    InvalidInput,
    Internal,
    StoreUnavailable,
    TooManyRequests,
)
WITH_BODY: tuple[type[WorkError], ...] = (MalformedBody, BodyTooLarge, UnsupportedMediaType)
PAGED: tuple[type[WorkError], ...] = (BadCursor,)

TAGS = [
    {"name": name, "description": about}
    for name, about in (
        ("work", "Publish, claim and settle. Nearly all requests are of these."),
        ("scopes", "A scope holds queues that belong together, and its own `_dead_letter`, `_events` and `_audit`."),
        ("queues", "How messages are ordered, retried and limited, and how many there are."),
        ("messages", "Look for messages, archived ones too; see what happened to them; cancel them."),
        ("dead letters", "Messages that could not be done: list them, send them back."),
        ("subscriptions", "Of a broadcast queue: each subscription gets every message."),
        ("rules", "What moves, copies, changes or escalates messages when something happens to them."),
        ("reviews", "Decisions that people make about messages."),
        ("schemas", "JSON Schemas that the bodies of a queue must fit."),
        ("chunks", "Long results in parts, while they are made."),
        ("events", "What happens in a scope, as it happens."),
        ("webhooks", "Events sent to an address of yours, signed."),
        ("erasures", "Everything that the messages about a person say, erased."),
        ("reports", "Usage, the audit, and the story of a correlation id."),
        ("keys", "API keys of the tenant."),
        ("access", "What keys may do, where, and how often."),
        ("agents", "Background duties of the installation."),
        ("probes", "For load balancers and Prometheus."),
    )
]
"""The topics of the document, in the order in which somebody new wants them."""

_REF = "#/components/schemas/{name}"
_described: list[tuple[Any, dict[str, Any]]] = [(Problem, {}), (Meta, {})]
"""Types that the document tells of, and where each is to be described: done when somebody asks for it, not at every start."""


def describe(
    operation_id: str,
    answer: Any,
    *,
    body: Any = None,
    body_optional: bool = False,
    status: int = 200,
    also: Sequence[int] = (),
    problems: Sequence[type[WorkError]] = (),
    paged: bool = False,
) -> dict[str, Any]:
    """Keyword arguments of a FastAPI route that answers with `answer` (None: no content); `also` are further good statuses.
    The operation id is for ever: generated clients name their methods after it."""
    kinds = [*ALWAYS, *(WITH_BODY if body is not None else ()), *(PAGED if paged else ()), *problems]
    responses: dict[int | str, dict[str, Any]] = documented(kinds)
    content = {} if answer is None else {"content": {JSON: {"schema": _envelope(answer)}}}
    for good in (status, *also):
        responses[good] = {"description": "done", **content}
    extra: dict[str, Any] = {"security": [{"key": []}]}
    if body is not None:
        extra["requestBody"] = {"required": not body_optional, "content": {JSON: {"schema": _schema(body)}}}
    return {
        "operation_id": operation_id,
        "status_code": status,
        "responses": responses,
        "openapi_extra": extra,
        "response_model": None,
    }


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """The whole document, made once."""
    if app.openapi_schema is None:
        schemas, components = msgspec.json.schema_components([kind for kind, _ in _described], ref_template=_REF)
        for (_, place), schema in zip(_described, schemas, strict=True):
            place.update(schema)
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
        )
        made = document.setdefault("components", {})
        made["schemas"] = {name: _with_tag_described(schema) for name, schema in sorted(components.items())}
        made["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer", "description": "an API key, `rlv_…`; `relevo work keys create`"}
        }
        for path in document["paths"].values():
            for operation in path.values():
                _repair(operation)
        app.openapi_schema = document
    return app.openapi_schema


def _with_tag_described(schema: dict[str, Any]) -> dict[str, Any]:
    """Of a union: msgspec writes the field that tells its types apart by itself, and says nothing about it."""
    for field in schema.get("properties", {}).values():
        if len(field.get("enum", ())) == 1:
            field.setdefault("description", "Which kind of object this is.")
    return schema


def _schema(kind: Any) -> dict[str, Any]:
    inner = get_args(kind)
    if get_origin(kind) is list and isinstance(inner[0], UnionType):  # of what msgspec writes but cannot tell apart
        return {"type": "array", "items": {"anyOf": [_schema(each) for each in get_args(inner[0])]}}
    place: dict[str, Any] = {}
    _described.append((kind, place))
    return place


def _envelope(kind: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["data", "meta"],
        "properties": {"data": _schema(kind), "meta": {"$ref": "#/components/schemas/Meta"}},
    }


def _repair(operation: dict[str, Any]) -> None:
    """The framework announces its own form of a 422 next to ours; ours is the one that is sent."""
    answer = operation.get("responses", {}).get("422", {})
    answer.get("content", {}).pop(JSON, None)
