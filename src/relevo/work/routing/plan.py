"""What a rule would do with one message: computed before anything is done, and all that a dry run shows.

Pure: a message goes in as a `Draft`, and comes out with its fields changed, the copies that are to be made of it, and where it
ends up. Whether the targets exist is asked later (routing/journey.py).
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from relevo.contract.messages import Tier
from relevo.contract.rules import Ending, Trigger
from relevo.errors import ExpressionFailed
from relevo.work.message.failure import Failure
from relevo.work.message.model import TIERS
from relevo.work.routing.conditions import Expression
from relevo.work.routing.rule import Escalate, Route, Rule, ToArchive, Transform, next_tier

_LAST_MS = 2**53 - 2


class Draft(msgspec.Struct, kw_only=True):
    """A message as rules see and shape it."""

    id: str
    message_type: str
    priority_tier: Tier
    priority_score: int
    labels: dict[str, str]
    body: bytes
    """JSON."""
    content_type: str
    deadline: int | None
    expires_at: int | None
    correlation_id: str
    causation_id: str | None = None
    parent_id: str | None = None
    source_type: str | None = None
    source_id: str | None = None
    idempotency_key: str | None = None
    body_digest: str | None = None
    """Of the body that was published with the key, once it has another."""
    state: str = "pending"
    attempts: int = 0
    reclaims: int = 0
    replays: int = 0
    failure_reason: str | None = None
    error: Failure | None = None
    result: bytes | None = None
    visible_at: int | None = None
    created_at: int = 0
    hops: int = 0
    """How often rules have sent it on, its parents' hops included."""

    def variables(self, queue: str, scope: str, now: int) -> dict[str, Any]:
        """What an expression may name."""
        message = {name: getattr(self, name) for name in _SHOWN}
        message["type"] = self.message_type
        message["error"] = {name: getattr(self.error, name, None) or "" for name in ("type", "message")}
        message["result"] = None if self.result is None else msgspec.json.decode(self.result)
        return {
            "message": message,
            "labels": dict(self.labels),
            "body": msgspec.json.decode(self.body),
            "queue": {"slug": queue, "scope": scope},
            "now": now,
        }


_SHOWN = (
    *("id", "message_type", "priority_tier", "priority_score", "content_type", "deadline", "correlation_id"),
    *("causation_id", "parent_id", "source_type", "source_id", "state", "attempts", "reclaims", "replays"),
    *("failure_reason", "created_at", "hops"),
)


class Copy(msgspec.Struct, kw_only=True):
    """A copy to be made, with the fields the message had when its turn came."""

    route: Route
    draft: Draft


class Plan(msgspec.Struct, kw_only=True):
    """What becomes of one message."""

    rule: str
    draft: Draft
    """As it is afterwards."""
    changed: bool = False
    copies: list[Copy] = []
    ending: Ending = "stays"
    route: Route | None = None
    """Where it moves."""
    review: dict[str, Any] | None = None
    reason: str | None = None


def matches(rule: Rule, trigger: Trigger, queue: str, variables: dict[str, Any]) -> bool:
    """Whether a rule is meant; `ExpressionFailed` when its condition gives no answer."""
    if not rule.enabled or rule.trigger != trigger or rule.queue not in (None, queue):
        return False
    return Expression(rule.condition).holds(variables)


def plan_of(rule: Rule, draft: Draft, queue: str, scope: str, now: int) -> Plan:
    """What `rule` does with a message that it matches; `ExpressionFailed` when one of its values cannot be computed."""
    plan = Plan(rule=rule.name, draft=msgspec.structs.replace(draft, labels=dict(draft.labels)), copies=[])
    for action in rule.actions:
        if isinstance(action, Transform):
            plan.draft = _transformed(action, plan.draft, queue, scope, now)
            plan.changed = True
        elif isinstance(action, Escalate):
            _escalate(action, plan, now)
        elif isinstance(action, Route) and action.copy:
            plan.copies.append(Copy(route=action, draft=plan.draft))
        elif isinstance(action, Route):
            plan.ending, plan.route = "moves", action
        elif isinstance(action, ToArchive):
            plan.ending = "archived"
        else:
            plan.ending, plan.reason = "dropped", action.reason
    return plan


def _escalate(action: Escalate, plan: Plan, now: int) -> None:
    changes: dict[str, Any] = {}
    if action.tier is not None:
        changes["priority_tier"] = next_tier(plan.draft.priority_tier) if action.tier == "next" else action.tier
    if action.deadline_s is not None:
        changes["deadline"] = now + action.deadline_s * 1000
    if changes:
        plan.draft = msgspec.structs.replace(plan.draft, **changes)
        plan.changed = True
    if action.review is not None:
        plan.review = action.review


def _transformed(action: Transform, draft: Draft, queue: str, scope: str, now: int) -> Draft:
    """All expressions see the message as it was before this action."""
    variables = draft.variables(queue, scope, now)
    changes: dict[str, Any] = {}
    for name, source in action.set.items():
        value = Expression(source).value(variables)
        column, fitting = _fitting(name, value, source, now)
        changes[column] = fitting
    if action.labels:
        labels = dict(draft.labels)
        for name, source in action.labels.items():
            if source is None:
                labels.pop(name, None)
                continue
            value = Expression(source).value(variables)
            if not isinstance(value, str) or not len(value) <= 200 or "\0" in value:
                raise ExpressionFailed(expression=source, reason=f"label {name!r} needs text of at most 200 characters")
            labels[name] = value
        changes["labels"] = labels
    if action.body is not None:
        try:
            changes["body"] = msgspec.json.encode(Expression(action.body).value(variables))
        except (TypeError, ValueError) as error:
            raise ExpressionFailed(expression=action.body, reason=f"its value is not JSON: {error}") from None
        changes["body_digest"] = draft.body_digest or hashlib.sha256(draft.body).hexdigest()
    return msgspec.structs.replace(draft, **changes)


def _fitting(name: str, value: Any, source: str, now: int) -> tuple[str, Any]:
    """The field that a computed value goes to, and the value as it is kept."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else -1
    if name == "message_type" and isinstance(value, str) and 0 < len(value) <= 200 and "\0" not in value:
        return name, value
    if name == "priority_tier" and value in TIERS:
        return name, value
    if name == "priority_score" and 0 <= number <= 999:
        return name, number
    if name == "deadline" and (value is None or 0 < number <= _LAST_MS):
        return name, None if value is None else number
    if name == "ttl_s" and (value is None or 0 < number <= 10**10):
        return "expires_at", None if value is None else now + number * 1000
    raise ExpressionFailed(expression=source, reason=f"{value!r:.100} is no {name}")
