"""A routing rule: when it is looked at, what must hold, and what is then done. Plain data, kept as JSON in its row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from relevo.contract import rules as contract
from relevo.contract.fields import about
from relevo.contract.messages import Tier
from relevo.contract.rules import Trigger
from relevo.errors import BadRule, RelevoError
from relevo.work.message.model import TIERS
from relevo.work.routing.conditions import Expression

MAX_ACTIONS = 20


class Route(msgspec.Struct, tag="route", tag_field="action", forbid_unknown_fields=True, kw_only=True):
    """To another queue of this scope or of one that trusts it, or to a stream queue, where it becomes a job."""

    queue: Annotated[str | None, about("The queue.")] = None
    scope: Annotated[str | None, about("The scope of the queue; null for the same.")] = None
    stream_queue: Annotated[str | None, about("Instead of a queue: the stream queue.")] = None
    job_name: Annotated[
        str | None, about("The job's name on the stream queue; the message's type when it is left out.")
    ] = None
    copy: Annotated[
        bool,
        about("A copy leaves the message where it is. One that moves to a stream queue waits for its job's outcome."),
    ] = False


class Transform(msgspec.Struct, tag="transform", tag_field="action", forbid_unknown_fields=True, kw_only=True):
    """Changes the message; `set` and `body` hold expressions."""

    set: Annotated[
        dict[Literal["message_type", "priority_tier", "priority_score", "deadline", "ttl_s"], str],
        about("An expression for each field."),
    ] = {}
    labels: Annotated[dict[str, str | None], about("An expression for each label, null to take it away.")] = {}
    body: Annotated[str | None, about("An expression for the body.")] = None


class Escalate(msgspec.Struct, tag="escalate", tag_field="action", forbid_unknown_fields=True, kw_only=True):
    """Makes it more urgent, gives it a deadline, or has a person look at it."""

    tier: Annotated[Tier | Literal["next"] | None, about("Its new tier; `next` for one higher.")] = None
    deadline_s: Annotated[int | None, about("Its deadline, in seconds from now.")] = None
    review: Annotated[
        dict[str, Any] | None, about("A review specification, or a pattern's name, version and parameters.")
    ] = None


class ToArchive(msgspec.Struct, tag="archive", tag_field="action", forbid_unknown_fields=True):
    """Finishes it as completed and moves it to the archive without waiting for the hour."""


class Drop(msgspec.Struct, tag="drop", tag_field="action", forbid_unknown_fields=True):
    """Cancels it: nobody will work on it."""

    reason: Annotated[str, about("For its history.")] = "dropped by a rule"


Action = Route | Transform | Escalate | ToArchive | Drop

_LAST = (Route, ToArchive, Drop)


class Rule(contract.Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of a scope. Rules are looked at by `position`, then by name; the first whose condition holds wins."""

    trigger: Annotated[Trigger, about("What has to happen for it to be looked at.")]
    actions: Annotated[list[Action], about("What is then done, in order.")]

    def checked(self) -> Rule:
        """Itself; `BadRule` says what is wrong with it, before anything is saved.

        >>> Rule(name="late", trigger="message_published", condition="body.late", actions=[Drop()]).checked().name
        'late'
        """
        for problem in self._problems():
            raise BadRule(rule=self.name, reason=problem)
        return self

    def _problems(self) -> Iterator[str]:
        if not self.actions:
            yield "it has no actions"
        if len(self.actions) > MAX_ACTIONS:
            yield f"it has {len(self.actions)} actions, {MAX_ACTIONS} are allowed"
        for number, action in enumerate(self.actions, 1):
            if isinstance(action, _LAST) and number < len(self.actions) and not _copies(action):
                yield f"action {number} ({action.__struct_config__.tag}) takes the message away, so nothing can follow it"
            for problem in _action_problems(action):
                yield f"action {number}: {problem}"
        for source in self.expressions():
            try:
                Expression(source)
            except RelevoError as error:
                yield str(error)

    def expressions(self) -> Iterator[str]:
        yield self.condition
        for action in self.actions:
            if isinstance(action, Transform):
                yield from action.set.values()
                yield from (source for source in action.labels.values() if source is not None)
                if action.body is not None:
                    yield action.body

    def targets(self) -> Iterator[Route]:
        yield from (action for action in self.actions if isinstance(action, Route))


def _copies(action: Action) -> bool:
    return isinstance(action, Route) and action.copy


def _action_problems(action: Action) -> Iterator[str]:
    if isinstance(action, Route):
        if (action.queue is None) == (action.stream_queue is None):
            yield "name either `queue` or `stream_queue` as the target of a route"
        if action.scope is not None and action.queue is None:
            yield "`scope` goes with `queue`; a stream queue has none"
        if action.job_name is not None and action.stream_queue is None:
            yield "`job_name` goes with `stream_queue`"
    elif isinstance(action, Transform):
        if not action.set and not action.labels and action.body is None:
            yield "a transform changes nothing: give `set`, `labels` or `body`"
    elif isinstance(action, Escalate):
        if action.tier is None and action.deadline_s is None and action.review is None:
            yield "an escalation does nothing: give `tier`, `deadline_s` or `review`"
        if action.deadline_s is not None and action.deadline_s < 0:
            yield f"deadline_s={action.deadline_s} is in the past"


def next_tier(tier: Tier) -> Tier:
    """One more urgent.

    >>> next_tier("normal"), next_tier("critical")
    ('high', 'critical')
    """
    return TIERS[min(TIERS.index(tier) + 1, len(TIERS) - 1)]


def decode_rule(data: bytes | str) -> Rule:
    """A rule from JSON, checked."""
    try:
        return msgspec.json.decode(data, type=Rule).checked()
    except msgspec.DecodeError as error:
        raise BadRule(rule="?", reason=str(error)) from None


def encode_rule(rule: Rule) -> bytes:
    return msgspec.json.encode(rule)


Variables = dict[str, Any]
