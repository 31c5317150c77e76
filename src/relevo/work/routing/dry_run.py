"""A rule tried out before it is enabled: on a sample, or on the last messages of a queue. Nothing is changed or counted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import select

from relevo.contract.rules import Tried
from relevo.errors import InvalidInput, RelevoError
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.queue_record import QueueRecord
from relevo.work.routing.plan import Draft, matches, plan_of
from relevo.work.routing.router import draft_of_row
from relevo.work.routing.rule import Route, Rule
from relevo.work.routing.targets import Targets
from relevo.work.store.database import Database
from relevo.work.store.tables import live
from relevo.work.tenancy.queues import Queues
from relevo.work.tenancy.trusts import Trusts

MOST = 500


class DryRuns:
    """Tries rules out."""

    def __init__(
        self, database: Database, queues: Queues, targets: Targets, trusts: Trusts, mint: IdMint, now_ms: Clock
    ) -> None:
        self._database = database
        self._queues = queues
        self._targets = targets
        self._trusts = trusts
        self._mint = mint
        self._now_ms = now_ms

    async def sample(
        self,
        caller: Caller,
        scope: str,
        rule: Rule,
        *,
        queue: str,
        body: bytes | msgspec.Raw,
        labels: dict[str, str] | None = None,
        message_type: str = "message",
    ) -> list[Tried]:
        """On a message that somebody made up."""
        caller.require("view")
        home = await self._queues.lookup(caller, scope, queue)
        try:
            msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise InvalidInput(where="body", reason=str(error)) from None
        now = self._now_ms()
        draft = Draft(
            id=self._mint(),
            message_type=message_type,
            priority_tier="normal",
            priority_score=0,
            labels=labels or {},
            body=bytes(body),
            content_type="application/json",
            deadline=None,
            expires_at=None,
            correlation_id="sample",
            created_at=now,
        )
        return await self._try(home, rule, [draft])

    async def last(self, caller: Caller, scope: str, rule: Rule, *, queue: str, limit: int = 100) -> list[Tried]:
        """On the last messages of a queue, newest first."""
        caller.require("view")
        if not 1 <= limit <= MOST:
            raise InvalidInput(where="last", reason=f"{limit} is not between 1 and {MOST}")
        home = await self._queues.lookup(caller, scope, queue)
        query = select(live).where(live.c.queue_id == home.id).order_by(live.c.id.desc()).limit(limit)
        async with self._database.connect() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return await self._try(home, rule, [draft_of_row(row) for row in rows])

    async def _try(self, home: QueueRecord, rule: Rule, drafts: Sequence[Draft]) -> list[Tried]:
        rule.checked()
        trusted_by = await self._trusts.trusted_by(home.scope_id)
        return [await self._one(home, rule, draft, trusted_by) for draft in drafts]

    async def _one(self, home: QueueRecord, rule: Rule, draft: Draft, trusted_by: frozenset[int]) -> Tried:
        now = self._now_ms()
        tried = msgspec.structs.replace(rule, enabled=True)
        try:
            variables = draft.variables(home.slug, home.scope, now)
            if not matches(tried, rule.trigger, home.slug, variables):
                return Tried(message_id=draft.id, matches=False)
        except RelevoError as error:
            return Tried(message_id=draft.id, matches=False, error=str(error))
        try:
            plan = plan_of(tried, draft, home.slug, home.scope, now)
            for route in (*(copy.route for copy in plan.copies), *(() if plan.route is None else (plan.route,))):
                await self._targets.find(home, route, trusted_by)
        except RelevoError as error:
            return Tried(message_id=draft.id, matches=True, error=str(error))
        return Tried(
            message_id=draft.id,
            matches=True,
            ending=plan.ending,
            to=None if plan.route is None else _shown(plan.route),
            copies_to=[_shown(copy.route) for copy in plan.copies],
            review=plan.review is not None,
            body=msgspec.Raw(plan.draft.body),
            labels=plan.draft.labels,
            priority_tier=plan.draft.priority_tier,
        )


def _shown(route: Route) -> str:
    if route.stream_queue is not None:
        return f"stream:{route.stream_queue}"
    return route.queue or "" if route.scope is None else f"{route.scope}/{route.queue}"
