"""The console as an application of its own, which `relevo serve` shows below /console."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from relevo.console import dead_letters, inbox, review
from relevo.console.console import Console
from relevo.console.login import HOME, Visit, log_in, log_out, show_login, to_login, visit_of
from relevo.console.rendering import HEADERS
from relevo.errors import KeyExpired, Unauthenticated, WorkError
from relevo.work.work_queues import WorkQueues

_STYLE = Path(__file__).parent / "static" / "console.css"

Page = Callable[[Console, Request], Awaitable[Response]]
Inner = Callable[[Console, Visit], Awaitable[Response]]


def make_console(work_queues: WorkQueues) -> Starlette:
    """The application; it is mounted at /console."""
    console = Console(work_queues)
    here = "/scopes/{scope}"
    routes = [
        Route("/", _home),
        Route("/style.css", _style),
        _route(console, "/login", show_login, "GET"),
        _route(console, "/login", log_in, "POST"),
        _route(console, "/logout", log_out, "POST"),
        _inner(console, "/reviews", inbox.show_inbox, "GET"),
        _inner(console, f"{here}/reviews/{{review}}", review.show_review, "GET"),
        _inner(console, f"{here}/reviews/{{review}}/{{verb}}", review.act, "POST"),
        _inner(console, "/dead-letters", dead_letters.choose_scope, "GET"),
        _inner(console, f"{here}/dead-letters", dead_letters.show_dead_letters, "GET"),
        _inner(console, f"{here}/dead-letters/{{message}}/review", dead_letters.send_to_review, "POST"),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: functools.partial(_lost, console),
            WorkError: functools.partial(_refused, console),
        },
    )


def _route(console: Console, path: str, page: Page, method: str) -> Route:
    async def answer(request: Request) -> Response:
        return await page(console, request)

    return Route(path, answer, methods=[method])


def _inner(console: Console, path: str, page: Inner, method: str) -> Route:
    """A page for those who are logged in."""

    async def answer(request: Request) -> Response:
        try:
            visit = await visit_of(console, request)
        except (Unauthenticated, KeyExpired):
            return to_login(request)
        request.state.visit = visit
        return await page(console, visit)

    return Route(path, answer, methods=[method])


async def _home(_: Request) -> Response:
    return RedirectResponse(HOME, 303, headers=HEADERS)


async def _style(_: Request) -> Response:
    headers = HEADERS | {"cache-control": "no-cache"}
    return Response(_STYLE.read_bytes(), headers=headers, media_type="text/css; charset=utf-8")


async def _refused(console: Console, request: Request, error: Exception) -> Response:
    assert isinstance(error, WorkError)
    return _said(console, request, error.status, " ".join(str(error).split()))


async def _lost(console: Console, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = "There is no page here." if error.status_code == 404 else "This page cannot be asked for in this way."
    return _said(console, request, error.status_code, what)


def _said(console: Console, request: Request, status: int, detail: str) -> Response:
    visit: Any = getattr(request.state, "visit", None)
    return console.pages.show(
        "error", status=status, detail=detail, visit=visit, request_id=getattr(request.state, "request_id", "")
    )
