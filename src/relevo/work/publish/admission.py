"""What is asked of messages before they are taken in: the queue's schema, the review they wish for, the rules of the scope.

All of it before the transaction, so that a message is where it belongs from the first moment on, and nobody can claim it
anywhere else. A queue without schema in a scope without rules pays two looks into dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from relevo.contract.messages import NewMessage, Refusal
from relevo.errors import InvalidInput, WorkError
from relevo.work.caller import Caller
from relevo.work.message.rows import COLUMNS, NewRow
from relevo.work.queue_record import QueueRecord
from relevo.work.review.patterns import Patterns
from relevo.work.review.spec import ReviewSpec
from relevo.work.routing.plan import Draft
from relevo.work.routing.route_plan import RoutePlan, RoutePlanner
from relevo.work.routing.rules import Rules
from relevo.work.schemas.checker import Checker
from relevo.work.schemas.registry import Schemas

_AT = {name: place for place, name in enumerate(COLUMNS)}


class Admission:
    """Looks at what is published in an installation."""

    def __init__(self, rules: Rules, schemas: Schemas, patterns: Patterns, route_planner: RoutePlanner) -> None:
        self._rules = rules
        self._schemas = schemas
        self._patterns = patterns
        self._route_planner = route_planner

    def is_plain(self, queue: QueueRecord, messages: Sequence[NewMessage]) -> bool:
        """Whether there is nothing to ask; false also when that is not known."""
        if queue.system:
            return True
        rules = self._rules.known(queue.scope_id)
        if rules is None or "message_published" in rules.by_trigger or not self._schemas.is_free(queue.id):
            return False
        return not any(map(_asks, messages))

    async def admit(
        self, caller: Caller, queue: QueueRecord, rows: list[NewRow | Refusal]
    ) -> tuple[list[NewRow | Refusal], dict[str, RoutePlan]]:
        """The rows, those that must not come in turned to refusals; and the plans of those that do not just wait here."""
        bound = await self._schemas.checker_of(queue.id)
        ruled = "message_published" in (await self._rules.of(queue.scope_id)).by_trigger
        if bound is None and not ruled and not any(isinstance(row, NewRow) and _asks(row.message) for row in rows):
            return rows, {}
        admitted: list[NewRow | Refusal] = []
        plans: dict[str, RoutePlan] = {}
        for row in rows:
            if isinstance(row, NewRow):
                try:
                    if bound is not None:
                        _require_fit(bound, row.message)
                    review = await self._review(caller, queue, row.message)
                except WorkError as error:
                    admitted.append(Refusal(error.code, str(error)))
                    continue
                if ruled or review is not None:
                    journey = await self._route_planner.of(queue, draft_of(row), "message_published", review=review)
                    plans[row.id] = journey
            admitted.append(row)
        if ruled:
            await self._route_planner.told(list(plans.values()))
        return admitted, {message_id: each for message_id, each in plans.items() if not each.plain}

    async def _review(self, caller: Caller, queue: QueueRecord, message: NewMessage) -> ReviewSpec | None:
        if not _asks(message):
            return None
        if queue.consumer_mode == "broadcast":
            raise InvalidInput(
                where="hitl_spec", reason="a message of a broadcast queue has no one fate to decide over"
            )
        # Patterns are for everybody in the scope: who may publish may use them, without the permission to look around.
        reader = msgspec.structs.replace(caller, permissions=caller.permissions | {"view"}, queues=None)
        return await self._patterns.resolve(reader, queue.scope, message.hitl_spec, msgspec.json.decode(message.body))


def draft_of(row: NewRow) -> Draft:
    """A message on its way in, as rules see it."""
    message, values = row.message, row.values
    return Draft(
        id=row.id,
        message_type=message.message_type,
        priority_tier=message.priority_tier,
        priority_score=message.priority_score,
        labels=dict(message.labels),
        body=bytes(message.body),
        content_type=message.content_type,
        deadline=message.deadline,
        expires_at=values[_AT["expires_at"]],
        correlation_id=values[_AT["correlation_id"]],
        causation_id=message.causation_id,
        parent_id=message.parent_id,
        source_type=message.source_type,
        source_id=message.source_id,
        idempotency_key=message.idempotency_key,
        state=row.state,
        visible_at=values[_AT["visible_at"]],
        created_at=values[_AT["created_at"]],
    )


def _asks(message: NewMessage) -> bool:
    return len(message.hitl_spec) > 0 and bytes(message.hitl_spec) != b"null"


def _require_fit(bound: tuple[str, int, Checker], message: NewMessage) -> None:
    name, version, checker = bound
    if not checker.fits(message.body):
        checker.check(message.body, name, version)
