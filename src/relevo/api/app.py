"""The HTTP application: fast routes in front, FastAPI behind, problem documents for whatever goes wrong in either."""

from __future__ import annotations

import time
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from relevo.agents.agents import Agents
from relevo.api import fast_operations
from relevo.api.auth import header, request_id_of
from relevo.api.fast_routes import Asgi, FastRoutes, Send
from relevo.api.faults import parameter_fault
from relevo.api.metrics import ApiMetrics
from relevo.api.openapi import TAGS, openapi_of
from relevo.api.problems import known, nowhere, problem, problem_of, problem_response
from relevo.api.request_body import ClientGone, Receive
from relevo.api.routes import (
    agents,
    chunks,
    dead_letters,
    erasures,
    event_stream,
    front,
    grants,
    health,
    keys,
    messages,
    patterns,
    queues,
    reports,
    reviews,
    rules,
    schemas,
    scopes,
    subscriptions,
    trusts,
    webhooks,
)
from relevo.api.serving import Serving
from relevo.api.settings import ApiSettings
from relevo.errors import InvalidInput, MethodNotAllowed, WorkError
from relevo.work.work_queues import WorkQueues

ABOUT = """Durable messages in queues: published once, claimed in order, settled by the one who holds them.

Every answer is `{"data": …, "meta": {"request_id": …}}`; every error a problem document (RFC 9457) with a stable `code`.
Times are milliseconds since 1970; requests may also write them as RFC 3339."""


def make_app(
    work_queues: WorkQueues,
    running_agents: Agents,
    settings: ApiSettings | None = None,
    *,
    version: str = "0",
    console: Asgi | None = None,
) -> FastRoutes:
    """The application as a server runs it; `console` are the pages below /console."""
    app = FastAPI(
        title="relevo work queues",
        version=version,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        openapi_tags=TAGS,
    )
    app.state.serving = serving = Serving(work_queues, running_agents, settings or ApiSettings(), console is not None)
    for room in (
        *(fast_operations, scopes, queues, messages, dead_letters, subscriptions, agents, reports, keys, health),
        *(grants, webhooks, event_stream, chunks, erasures),
        *(rules, reviews, patterns, schemas, trusts, front),
    ):
        app.include_router(room.router)
    if console is not None:
        app.mount("/console", console)
    app.openapi = lambda: openapi_of(app)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(WorkError, _told)
    app.add_exception_handler(Exception, _told)
    return FastRoutes(_Guarded(app, serving.metrics), serving)


class _Guarded:
    """Around the framework: request ids, strange addresses, the clock of the metrics, and errors nobody else has dealt with."""

    def __init__(self, app: Asgi, metrics: ApiMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = request_id_of(header(scope["headers"], b"x-request-id"))
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def told(event: Any) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
                if not any(name == b"x-request-id" for name, _ in event["headers"]):
                    event["headers"] = [*event["headers"], (b"x-request-id", request_id.encode())]
            await send(event)

        try:
            path: str = scope["path"]
            if not (path.isascii() and path.isprintable()):
                raise nowhere(path)
            if b"%00" in scope["query_string"]:
                raise InvalidInput(where="address", reason="it contains a NUL character")
            await self._app(scope, receive, told)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - told already when an answer has begun: the framework hands it on all the same
            if status:
                return
            await problem_response(problem_of(known(error), request_id))(scope, receive, told)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            self._metrics.answered(route, scope["method"], status or 499, time.perf_counter() - started)


async def _told(request: Request, error: Exception) -> Response:
    return problem_response(problem_of(known(error), request.state.request_id))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first, *_ = found = error.errors()
    where = ".".join(str(part) for part in first["loc"])
    given = first.get("input")
    reason = f"{given[:100]!r}: {first['msg']}" if isinstance(given, str) else first["msg"]
    faults = [parameter_fault(each["loc"], each["type"], each["msg"]) for each in found]
    refusal = InvalidInput(where=where, reason=reason, faults=faults)
    return problem_response(problem_of(refusal, request.state.request_id))


def _methods_at(request: Request) -> list[str]:
    """Everything that the document has at this address: the framework tells of one route, and there is one for each method."""
    parts = request.url.path.split("/")
    found: set[str] = set()
    for path, operations in request.app.openapi()["paths"].items():
        names = path.split("/")
        if len(names) == len(parts) and all(map(_names, names, parts)):
            found.update(method.upper() for method in operations)
    return sorted(found)


def _names(part: str, given: str) -> bool:
    return part == given or part.startswith("{")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    request_id: str = request.state.request_id
    if error.status_code == 404:
        return problem_response(problem_of(nowhere(request.url.path), request_id))
    if error.status_code == 405:
        allowed = ", ".join(_methods_at(request)) or (error.headers or {}).get("Allow", "")
        refusal = MethodNotAllowed(method=request.method, path=request.url.path, allowed=allowed)
        response = problem_response(problem_of(refusal, request_id))
        response.headers["allow"] = allowed
        return response
    return problem_response(problem(error.status_code, "INVALID_INPUT", str(error.detail), request_id))
