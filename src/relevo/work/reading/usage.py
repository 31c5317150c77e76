"""Usage: what each queue has done on each day, from the tallies that every transaction keeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import and_, func, select

from relevo.contract.audit import UsageRow
from relevo.contract.pages import Page
from relevo.work.caller import Caller
from relevo.work.pagination import Listing
from relevo.work.store.database import Database
from relevo.work.store.tables import queues, scopes, tallies

COUNTED = (
    "published",
    "published_bytes",
    "claims",
    "completed",
    "failed",
    "retried",
    "released",
    "reclaimed",
    "expired",
    "dead_lettered",
    "cancelled",
    "replayed",
)

_FIRST_DAY = date(1970, 1, 1)
_LISTING = Listing("usage", day=tallies.c.day, scope=scopes.c.slug, queue=queues.c.slug)


class Usage:
    """Reads the account of a tenant."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms

    async def list(
        self,
        caller: Caller,
        *,
        since: date | None = None,
        until: date | None = None,
        scope: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[UsageRow]:
        """By day, scope and queue; `since` and `until` are both counted in. Without `since` the last 30 days."""
        caller.require("view")
        last = (until - _FIRST_DAY).days if until else self._now_ms() // 86_400_000
        first = (since - _FIRST_DAY).days if since else last - 29
        c = tallies.c
        query = (
            select(c.day, scopes.c.slug.label("scope"), queues.c.slug.label("queue"))
            .add_columns(*(func.sum(c[name]).label(name) for name in (*COUNTED, "handler_ms")))
            .join_from(tallies, queues, queues.c.id == c.queue_id)
            .join(scopes, scopes.c.id == queues.c.scope_id)
            .where(and_(scopes.c.tenant_id == caller.tenant_id, c.day >= first, c.day <= last))
            .group_by(c.day, scopes.c.slug, queues.c.slug)
        )
        if scope is not None:
            query = query.where(scopes.c.slug == scope)
        if caller.scopes is not None:
            query = query.where(scopes.c.slug.in_(caller.scopes))
        if caller.queues is not None:
            query = query.where(queues.c.slug.in_(caller.queues))
        async with self._database.connect() as connection:
            return await _LISTING.page(connection, query, _row, limit=limit, cursor=cursor)


def _row(row: Any) -> UsageRow:
    day = datetime.fromtimestamp(row["day"] * 86_400, UTC).date().isoformat()
    counts = {name: int(row[name]) for name in COUNTED}
    return UsageRow(day=day, scope=row["scope"], queue=row["queue"], **counts, handler_s=int(row["handler_ms"]) / 1000)
