"""Logging in and out: an API key is shown once, the browser keeps a token that is worth nothing elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from relevo.console.forms import csrf_of, fresh_token, posted
from relevo.console.rendering import HEADERS
from relevo.errors import InvalidInput, KeyExpired, PermissionDenied, TooManyRequests, Unauthenticated
from relevo.work.access.console_sessions import LASTS_MS, ConsoleSession

if TYPE_CHECKING:
    from relevo.console.console import Console

HOME = "/console/reviews"
COOKIE = "relevo_session"
LOGIN_COOKIE = "relevo_login"


class Visit:
    """A request of somebody who is logged in."""

    def __init__(self, request: Request, session: ConsoleSession, token: str) -> None:
        self.request = request
        self.session = session
        self.token = token
        self.person = session.person

    @property
    def csrf(self) -> str:
        return csrf_of(self.token)


async def visit_of(console: Console, request: Request) -> Visit:
    """Who asks; `Unauthenticated` when nobody is logged in."""
    token = request.cookies.get(COOKIE, "")
    if not token:
        raise Unauthenticated
    session = await console.work_queues.console_sessions.find(token, request.state.request_id)
    return Visit(request, session, token)


async def show_login(console: Console, request: Request) -> Response:
    return _login_page(console, request, next_page=_own_page(request.query_params.get("next")))


async def log_in(console: Console, request: Request) -> Response:
    token = request.cookies.get(LOGIN_COOKIE, "")
    fields = await posted(request, token)
    next_page = _own_page(fields.get("next"))
    key, person = fields.get("key", "").strip(), fields.get("person", "").strip()
    faults: dict[str, str] = {}
    try:
        session = await console.work_queues.console_sessions.open(key, person, request.state.request_id)
    except (Unauthenticated, KeyExpired):
        faults["key"] = "This key does not open anything here. Check it, or ask whoever manages the keys for another."
    except PermissionDenied:
        faults["person"] = "This key does not act for other people: leave the name empty."
    except InvalidInput as error:
        faults["person"] = str(error)
    except TooManyRequests as error:
        faults["key"] = str(error)
    else:
        response = _sent_to(next_page)
        _set_cookie(request, response, COOKIE, session, LASTS_MS // 1000)
        response.delete_cookie(LOGIN_COOKIE, path="/console")
        return response
    return _login_page(console, request, next_page=next_page, faults=faults, person=person, status=422)


async def log_out(console: Console, request: Request) -> Response:
    token = request.cookies.get(COOKIE, "")
    await posted(request, token)
    await console.work_queues.console_sessions.close(token)
    response = _sent_to("/console/login")
    response.delete_cookie(COOKIE, path="/console")
    return response


def to_login(request: Request) -> Response:
    """To the login, and after it back to here, if here is a page."""
    here = request.url.path if request.method == "GET" else HOME
    return _sent_to(f"/console/login?next={here}")


def _login_page(
    console: Console,
    request: Request,
    *,
    next_page: str,
    faults: dict[str, str] | None = None,
    person: str = "",
    status: int = 200,
) -> Response:
    token = request.cookies.get(LOGIN_COOKIE) or fresh_token()
    shown = console.pages.show(
        "login", status=status, csrf=csrf_of(token), next=next_page, faults=faults or {}, person=person, visit=None
    )
    _set_cookie(request, shown, LOGIN_COOKIE, token, 3600)
    return shown


def _set_cookie(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(name, value, max_age=seconds, path="/console", httponly=True, samesite="strict", secure=secure)


def _sent_to(page: str) -> Response:
    return RedirectResponse(page, 303, headers=HEADERS)


def _own_page(wanted: str | None) -> str:
    """Only pages of ours: a link must not lead somebody who logs in to somewhere else."""
    parts = urlsplit(wanted or "")
    inside = parts.path.startswith("/console/") and not parts.scheme and not parts.netloc
    return parts.path if inside and not any(odd in parts.path for odd in ("\\", "//", "..")) else HOME
