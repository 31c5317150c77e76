"""Dead letters of a scope, and the click that has a person look at one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from relevo.console.forms import posted
from relevo.console.inbox import scopes_of
from relevo.console.login import Visit
from relevo.console.rendering import HEADERS
from relevo.errors import PermissionDenied, ReplayLoop, WrongState
from relevo.wire.ids import require_id
from relevo.work.dead_letters.listing import DeadLetterFilter

if TYPE_CHECKING:
    from relevo.console.console import Console

_PAGE = 50


async def choose_scope(console: Console, visit: Visit) -> Response:
    """The first scope's, or the one that was chosen."""
    scopes = await scopes_of(console, visit)
    wanted, reason = visit.request.query_params.get("scope"), visit.request.query_params.get("reason")
    if wanted in scopes or (wanted is None and scopes):
        place = f"/console/scopes/{wanted or scopes[0]}/dead-letters"
        asked = f"?{urlencode({'reason': reason})}" if reason else ""
        return RedirectResponse(place + asked, 303, headers=HEADERS)
    return console.pages.show(
        "dead_letters",
        visit=visit,
        letters=[],
        next_cursor=None,
        scopes=scopes,
        scope=None,
        reason="",
        error=None,
        tab="dead-letters",
    )


async def show_dead_letters(console: Console, visit: Visit) -> Response:
    return await _page(console, visit)


async def send_to_review(console: Console, visit: Visit) -> Response:
    await posted(visit.request, visit.token)
    scope, message_id = visit.request.path_params["scope"], require_id("message", visit.request.path_params["message"])
    try:
        review = await console.work_queues.reviews.open_for_dead_letter(
            visit.session.caller(scope, "review"), scope, message_id
        )
    except (ReplayLoop, WrongState, PermissionDenied) as error:
        return await _page(console, visit, error=" ".join(str(error).split()), status=error.status)
    return RedirectResponse(f"/console/scopes/{scope}/reviews/{review.id}?done=sent", 303, headers=HEADERS)


async def _page(console: Console, visit: Visit, *, error: str | None = None, status: int = 200) -> Response:
    scope, asked = visit.request.path_params["scope"], visit.request.query_params
    reason = asked.get("reason", "").strip()[:200]
    page = await console.work_queues.dead_letters.list(
        visit.session.caller(scope),
        scope,
        DeadLetterFilter(reason=reason or None),
        limit=_PAGE,
        cursor=asked.get("cursor") or None,
    )
    return console.pages.show(
        "dead_letters",
        status=status,
        visit=visit,
        letters=page.items,
        next_cursor=page.next_cursor,
        scopes=await scopes_of(console, visit),
        scope=scope,
        reason=reason,
        error=error,
        tab="dead-letters",
    )
