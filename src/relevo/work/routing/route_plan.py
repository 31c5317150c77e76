"""The way of one message through the rules: from the queue where something happened to it to where it ends up.

Decided before any transaction. A message that arrives in another queue has been published there, so the rules of that queue
are asked again, and so on; all but the rule that sent it. Each sending-on is a hop. A way of more than `MAX_HOPS` is a loop:
the message stays where it is then, the rule's breaker counts a failure, and the scope's `_integrity` is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from relevo.contract.rules import Trigger
from relevo.errors import BadReviewSpec, RelevoError
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.queue_record import QueueRecord
from relevo.work.review.patterns import Patterns
from relevo.work.review.spec import ReviewSpec
from relevo.work.routing.plan import Draft, Plan, matches, plan_of
from relevo.work.routing.rules import Rules, StoredRule
from relevo.work.routing.targets import Targets
from relevo.work.schemas.registry import Schemas
from relevo.work.streams.stream_jobs import StreamTarget

MAX_HOPS = 10
MOST_PLACES = 100
"""Copies of one message, and of its copies, in one go."""

Ending = Literal["waits", "review", "stream", "archived", "dropped"]


class Move(NamedTuple):
    """One hop."""

    rule: str
    source: QueueRecord
    to: str
    """The target as people write it: `queue`, `scope/queue` or `stream:queue`."""
    hop: int

    @property
    def line(self) -> str:
        """For the message's history."""
        return f"hop {self.hop}: {self.rule}, {self.source.slug} -> {self.to}"


class Destination(msgspec.Struct, kw_only=True):
    """Where one message, or a copy of it, ends up."""

    draft: Draft
    queue: QueueRecord
    ending: Ending = "waits"
    moves: list[Move] = []
    stream: StreamTarget | None = None
    review: ReviewSpec | None = None
    reason: str | None = None
    rule: str | None = None
    """The last that had a say; None when none did."""
    changed: bool = False
    copied_from: str | None = None


class RoutePlan:
    """What becomes of one message."""

    def __init__(self, home: QueueRecord) -> None:
        self.home = home
        self.main: Destination
        self.copies: list[Destination] = []
        self.succeeded: list[StoredRule] = []
        self.failed: list[tuple[StoredRule, str]] = []
        self.loops: list[tuple[StoredRule, str]] = []
        """Rules that would have sent a message on once too often, with the message's id."""

    @property
    def plain(self) -> bool:
        """Whether nothing is to be done beside what would be done without any rules."""
        main = self.main
        return main.rule is None and main.ending == "waits" and not self.copies


class _Step(NamedTuple):
    stored: StoredRule
    plan: Plan
    target: QueueRecord | StreamTarget | None
    copies: list[QueueRecord | StreamTarget]
    review: ReviewSpec | None


class RoutePlanner:
    """Works out journeys."""

    def __init__(
        self, rules: Rules, targets: Targets, patterns: Patterns, schemas: Schemas, mint: IdMint, now_ms: Clock
    ) -> None:
        self._rules = rules
        self._targets = targets
        self._patterns = patterns
        self._schemas = schemas
        self._mint = mint
        self._now_ms = now_ms

    async def of(
        self, home: QueueRecord, draft: Draft, trigger: Trigger, *, review: ReviewSpec | None = None
    ) -> RoutePlan:
        """The journey of a message to which `trigger` happened in `home`. `review` is what its publisher asked for."""
        journey = RoutePlan(home)
        journey.main = await self._travel(journey, home, draft, trigger, None, review)
        return journey

    async def told(self, journeys: Sequence[RoutePlan]) -> None:
        """Notes in the rules' rows how they did, and tells of loops."""
        rules = self._rules
        await rules.write_counts()
        failures: dict[str, tuple[StoredRule, str, int, str]] = {}
        well: dict[str, StoredRule] = {}
        for journey in journeys:
            for stored in journey.succeeded:
                rules.matched(stored.id)
                well[stored.id] = stored
            for stored, reason in journey.failed:
                count = failures[stored.id][2] if stored.id in failures else 0
                failures[stored.id] = (stored, reason, count + 1, journey.main.draft.id)
            for stored, message_id in journey.loops:
                body = {"rule": stored.rule.name, "message_id": message_id, "hops": MAX_HOPS}
                await rules.find(stored.scope_id, "routing_loop", body)
        for stored, reason, count, example in failures.values():
            await rules.note(stored, reason, count=count, example=example)
        for stored in well.values():
            if stored.id not in failures:
                await rules.note(stored, None)

    async def _travel(
        self,
        journey: RoutePlan,
        at: QueueRecord,
        draft: Draft,
        trigger: Trigger,
        sent_by: str | None,
        review: ReviewSpec | None,
    ) -> Destination:
        place = Destination(draft=draft, queue=at, moves=[], review=review)
        while True:
            step = await self._match(journey, place, trigger, sent_by)
            if step is None:
                break
            place.draft, place.rule = step.plan.draft, step.plan.rule
            place.changed = place.changed or step.plan.changed
            place.review = step.review or place.review
            for copy, target in zip(step.plan.copies, step.copies, strict=True):
                await self._copy(journey, place, copy.draft, target, step.stored)
            if step.plan.ending in ("archived", "dropped"):
                place.ending = "archived" if step.plan.ending == "archived" else "dropped"
                place.reason = step.plan.reason
                return place
            if step.target is None or (isinstance(step.target, QueueRecord) and step.target.id == place.queue.id):
                break
            if isinstance(step.target, StreamTarget) and place.review is not None:
                break  # a person first; what they decide may be routed on
            place.draft = msgspec.structs.replace(place.draft, hops=place.draft.hops + 1)
            place.moves.append(Move(step.plan.rule, place.queue, _shown(step.target, place.queue), place.draft.hops))
            if isinstance(step.target, StreamTarget):
                place.ending, place.stream = "stream", step.target
                return place
            place.queue, sent_by, trigger = step.target, step.stored.id, "message_published"
        place.ending = "waits" if place.review is None else "review"
        return place

    async def _copy(
        self,
        journey: RoutePlan,
        parent: Destination,
        draft: Draft,
        target: QueueRecord | StreamTarget,
        stored: StoredRule,
    ) -> None:
        if len(journey.copies) >= MOST_PLACES:
            journey.loops.append((stored, draft.id))
            return
        now = self._now_ms()
        copied = msgspec.structs.replace(
            draft,
            id=self._mint(),
            parent_id=draft.id,
            causation_id=draft.id,
            source_type="rule",
            source_id=stored.rule.name,
            idempotency_key=None,
            body_digest=None,
            state="pending",
            attempts=0,
            reclaims=0,
            replays=0,
            failure_reason=None,
            error=None,
            result=None,
            visible_at=None,
            created_at=now,
            hops=draft.hops + 1,
            expires_at=draft.expires_at if (draft.expires_at or 0) > now else None,
        )
        move = Move(stored.rule.name, parent.queue, _shown(target, parent.queue), copied.hops)
        if isinstance(target, StreamTarget):
            place = Destination(draft=copied, queue=parent.queue, ending="stream", stream=target, rule=stored.rule.name)
        else:
            place = await self._travel(journey, target, copied, "message_published", stored.id, None)
        place.moves = [move, *place.moves]
        place.copied_from = draft.id
        journey.copies.append(place)

    async def _match(
        self, journey: RoutePlan, place: Destination, trigger: Trigger, sent_by: str | None
    ) -> _Step | None:
        """The first rule that holds and can be carried out."""
        queue, draft = place.queue, place.draft
        known = await self._rules.of(queue.scope_id)
        candidates = known.by_trigger.get(trigger, ())
        if not candidates or queue.system:
            return None
        now = self._now_ms()
        variables = draft.variables(queue.slug, queue.scope, now)
        for stored in candidates:
            rule = stored.rule
            if stored.id == sent_by or rule.queue not in (None, queue.slug) or stored.breaker.state(now) == "open":
                continue
            try:
                if not matches(rule, trigger, queue.slug, variables) or not stored.breaker.allows(now):
                    continue
                plan = plan_of(rule, draft, queue.slug, queue.scope, now)
                if draft.hops >= MAX_HOPS and (plan.copies or plan.route is not None):
                    journey.loops.append((stored, draft.id))
                    self._fail(journey, stored, f"message {draft.id} was sent on {MAX_HOPS} times: a loop", now)
                    return None
                copies = [await self._targets.find(queue, each.route, known.trusted_by) for each in plan.copies]
                target = None
                if plan.route is not None:
                    target = await self._targets.find(queue, plan.route, known.trusted_by)
                    await self._require_fit(target, plan.draft)
                for copy, place_of_it in zip(plan.copies, copies, strict=True):
                    await self._require_fit(place_of_it, copy.draft)
                review = await self._review(place, plan)
            except RelevoError as error:
                self._fail(journey, stored, str(error), now)
                continue
            journey.succeeded.append(stored)
            return _Step(stored, plan, target, copies, review)
        return None

    async def _require_fit(self, target: QueueRecord | StreamTarget, draft: Draft) -> None:
        """What does not fit the schema of its target does not get there by a rule either."""
        if isinstance(target, QueueRecord):
            bound = await self._schemas.checker_of(target.id)
            if bound is not None and not bound[2].fits(draft.body):
                bound[2].check(draft.body, bound[0], bound[1])

    async def _review(self, place: Destination, plan: Plan) -> ReviewSpec | None:
        if plan.review is None:
            return None
        if place.queue.consumer_mode == "broadcast":
            raise BadReviewSpec(reason="a message of a broadcast queue has no one fate that a person could decide")
        queue, given = place.queue, msgspec.json.encode(plan.review)
        caller = Caller.system("router", queue.tenant_id)
        return await self._patterns.resolve(caller, queue.scope, given, msgspec.json.decode(plan.draft.body))

    @staticmethod
    def _fail(journey: RoutePlan, stored: StoredRule, reason: str, now: int) -> None:
        # Here as well as in the row: of a thousand messages at once the first few are enough to find out.
        stored.breaker.failed(now, reason)
        journey.failed.append((stored, reason))


def _shown(target: QueueRecord | StreamTarget, source: QueueRecord) -> str:
    if isinstance(target, StreamTarget):
        return f"stream:{target.queue}"
    return target.slug if target.scope_id == source.scope_id else f"{target.scope}/{target.slug}"
