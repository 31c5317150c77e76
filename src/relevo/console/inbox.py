"""The inbox: what waits for people, in one scope or in all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

from starlette.responses import Response

from relevo.console.login import Visit
from relevo.contract.reviews import CaseState
from relevo.errors import PermissionDenied

if TYPE_CHECKING:
    from relevo.console.console import Console

STATES: tuple[str, ...] = get_args(CaseState)
_PAGE = 50
DONE = {
    "decided": "Your decision is recorded.",
    "released": "The review waits for somebody else now.",
}


async def show_inbox(console: Console, visit: Visit) -> Response:
    asked = visit.request.query_params
    scope, state = asked.get("scope") or None, asked.get("state") or None
    mine = asked.get("mine") == "1"
    if state not in STATES:
        state = None
    page = await console.work_queues.reviews.inbox(
        visit.session.caller(scope),
        scope,
        state=cast("CaseState | None", state),
        person=visit.person if mine else None,
        limit=_PAGE,
        cursor=asked.get("cursor") or None,
    )
    return console.pages.show(
        "inbox",
        visit=visit,
        reviews=page.items,
        next_cursor=page.next_cursor,
        scopes=await scopes_of(console, visit),
        scope=scope,
        state=state,
        states=STATES,
        mine=mine,
        notice=DONE.get(asked.get("done", "")),
        tab="reviews",
    )


async def scopes_of(console: Console, visit: Visit) -> list[str]:
    """The scopes to choose from."""
    try:
        found = await console.work_queues.scopes.list(visit.session.caller(), limit=200)
    except PermissionDenied:
        return []
    return [scope.slug for scope in found.items]
