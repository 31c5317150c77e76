"""What a person is asked: context to read, a decision to make, fields to fill in, and what happens when nobody answers.

A message carries a specification inline, or names a pattern with its parameters (review/patterns.py), which is filled in when
the review is opened: a later version of the pattern changes nothing about a review that somebody is looking at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from relevo.contract.fields import about
from relevo.errors import BadDecision, BadReviewSpec

Kind = Literal["text", "multiline", "number", "integer", "boolean", "date", "choice", "json"]

_PLACE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
MAX_TEXT = 20_000
NAMES_OF_OURS = frozenset({"decision", "comment", "corrected_body"})

Seconds = Annotated[int, msgspec.Meta(ge=1, le=366 * 86_400)]


class Section(msgspec.Struct, forbid_unknown_fields=True):
    """Something to read first. `{{parameter}}` stands for a parameter, `{{body.field}}` for a part of the message."""

    title: Annotated[str, about("Its heading.")]
    content: Annotated[str, about("Its text.")] = ""


class Option(msgspec.Struct, forbid_unknown_fields=True):
    """One possible decision; `replays` marks the one that sends a dead letter back, `rejects` the one that closes it."""

    value: Annotated[str, about("What the answer holds.")]
    label: Annotated[str, about("What people read; the value when it is empty.")] = ""
    tone: Annotated[Literal["neutral", "good", "bad"], about("How it is shown.")] = "neutral"


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    """The one question that has to be answered."""

    options: Annotated[list[Option], about("What can be decided.")]
    field: Annotated[str, about("The field of the answer that holds it.")] = "decision"
    label: Annotated[str, about("What people read.")] = "Decision"


class Input(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A field to fill in beside the decision."""

    field: Annotated[str, about("The field of the answer that holds it.")]
    kind: Annotated[Kind, about("What is filled in.")] = "text"
    label: Annotated[str, about("What people read; the field's name when it is empty.")] = ""
    required: Annotated[bool, about("Whether it has to be filled in.")] = False
    default: Annotated[Any, about("What it holds before anybody fills it in.")] = None
    choices: Annotated[list[str], about("Of the kind `choice`: what can be chosen.")] = []
    minimum: Annotated[float | None, about("Of a number: the least.")] = None
    maximum: Annotated[float | None, about("Of a number: the most.")] = None
    max_length: Annotated[int, msgspec.Meta(ge=1, le=MAX_TEXT), about("Of a text: the most characters.")] = MAX_TEXT
    only_for: Annotated[list[str], about("Asked only with these decisions; empty for all.")] = []


class Escalation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Who is asked next when the time is over, and for how long."""

    assignees: Annotated[list[str], about("The names of the people.")]
    timeout_s: Annotated[Seconds | None, about("How many seconds they have; null for no end.")] = None


class ReviewSpec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What people are asked, whom, and what happens when nobody answers."""

    title: Annotated[str, about("Its title; `{{parameter}}` and `{{body.field}}` are filled in.")] = "Review"
    context: Annotated[list[Section], about("What people read first.")] = []
    decision: Annotated[Decision, about("The one question that has to be answered.")] = msgspec.field(
        default_factory=lambda: Decision([Option("approve", "Approve", "good"), Option("reject", "Reject", "bad")])
    )
    input: Annotated[list[Input], about("Fields to fill in beside the decision.")] = []
    assignees: Annotated[
        list[str],
        about("Who may decide: names of people (API keys' names); empty for everyone with the permission to review."),
    ] = []
    quorum: Annotated[int, msgspec.Meta(ge=1, le=50), about("How many people have to decide the same.")] = 1
    timeout_s: Annotated[Seconds | None, about("How many seconds they have; null for no end.")] = None
    on_timeout: Annotated[
        Literal["escalate", "fail", "complete"],
        about("When nobody answers in time: ask others, fail the message, or take `default` as the answer."),
    ] = "fail"
    default: Annotated[dict[str, Any] | None, about("The answer for `complete`.")] = None
    escalate_to: Annotated[Escalation | None, about("Who is asked next, for `escalate`.")] = None
    remind_s: Annotated[Seconds | None, about("People are reminded after so many seconds; null for never.")] = None
    hold_s: Annotated[Seconds, about("How many seconds somebody may hold it without a sign of life.")] = 3_600
    may_correct: Annotated[bool, about("Whether the reviewer may change the body of the message.")] = False

    def checked(self) -> ReviewSpec:
        """Itself; `BadReviewSpec` names the first thing wrong with it.

        >>> ReviewSpec(
        ...     title="Refund?", timeout_s=3600, on_timeout="complete", default={"decision": "reject"}
        ... ).checked().quorum
        1
        """
        for problem in self._problems():
            raise BadReviewSpec(reason=problem)
        return self

    def _problems(self) -> Iterator[str]:
        values = [option.value for option in self.decision.options]
        if len(values) < 1 or len(set(values)) != len(values) or not all(values):
            yield "a decision needs options with different values"
        yield from self._field_problems(values)
        if self.assignees and self.quorum > len(set(self.assignees)):
            yield f"a quorum of {self.quorum} cannot come from {len(set(self.assignees))} assignees"
        if self.timeout_s is None and (self.on_timeout != "fail" or self.escalate_to is not None):
            yield f"on_timeout={self.on_timeout!r} needs `timeout_s`"
        if self.on_timeout == "escalate" and self.escalate_to is None:
            yield "on_timeout='escalate' needs `escalate_to` with its assignees"
        if self.escalate_to is not None and len(set(self.escalate_to.assignees)) < self.quorum:
            yield f"a quorum of {self.quorum} cannot come from the {len(self.escalate_to.assignees)} people it escalates to"
        if (self.on_timeout == "complete") != (self.default is not None):
            yield "`default` goes with on_timeout='complete'"
        if self.default is not None:
            try:
                self.answer(self.default)
            except BadDecision as error:
                yield f"the default is no answer: {error.reason}"

    def _field_problems(self, values: list[str]) -> Iterator[str]:
        fields = [self.decision.field, *(each.field for each in self.input)]
        for field in fields:
            if _FIELD.fullmatch(field) is None:
                yield f"{field!r} is no name for a field: letters, digits and _"
        if len(set(fields)) != len(fields):
            yield "two fields have the same name"
        for each in self.input:
            if each.field in NAMES_OF_OURS:
                yield f"{each.field!r} is the name of a field of ours"
            if (each.kind == "choice") != bool(each.choices):
                yield f"{each.field}: `choices` go with the kind 'choice'"
            if not set(each.only_for) <= set(values):
                yield f"{each.field}: only_for={each.only_for} names a decision that there is not"
            if each.default is not None and (problem := _misfit(each, each.default)):
                yield f"{each.field}: the default {problem}"

    def filled(self, parameters: Mapping[str, Any], body: Any = None) -> ReviewSpec:
        """With every `{{place}}` of its titles and contents filled in; an unknown one is an error, not a blank.

        >>> spec = ReviewSpec(context=[Section("Order {{id}}", "{{body.lines}} lines")]).filled({"id": 7}, {"lines": 3})
        >>> spec.context[0].title, spec.context[0].content
        ('Order 7', '3 lines')
        """

        def fill(text: str) -> str:
            return _PLACE.sub(lambda place: _looked_up(place[1], parameters, body), text)

        sections = [Section(fill(each.title), fill(each.content)) for each in self.context]
        return msgspec.structs.replace(self, title=fill(self.title), context=sections)

    def places(self) -> set[str]:
        """The parameters it asks for (those of the body apart)."""
        texts = [self.title, *(text for each in self.context for text in (each.title, each.content))]
        found = {place for text in texts for place in _PLACE.findall(text)}
        return {place for place in found if place != "body" and not place.startswith("body.")}

    def answer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The answer with defaults filled in; `BadDecision` says which field is wrong and what it should be.

        >>> ReviewSpec().answer({"decision": "maybe"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        relevo.errors.reviews.BadDecision: The decision is not valid: decision='maybe' is not one of approve, reject...
        """
        for fault in self.faults(given).values():
            raise BadDecision(reason=fault)
        field = self.decision.field
        answer: dict[str, Any] = {field: given[field]}
        for each in self.asked(given[field]):
            value = given.get(each.field, each.default)
            if value is not None and value != "":
                answer[each.field] = value
        if given.get("comment"):
            answer["comment"] = str(given["comment"])[:MAX_TEXT]
        return answer

    def asked(self, chosen: Any) -> list[Input]:
        """The fields that go with a decision."""
        return [each for each in self.input if not each.only_for or chosen in each.only_for]

    def faults(self, given: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong with an answer, by field; a form shows each where it belongs.

        >>> ReviewSpec(input=[Input(field="amount", kind="number", required=True)]).faults({"decision": "approve"})
        {'amount': 'amount is needed'}
        """
        field = self.decision.field
        chosen = given.get(field)
        values = [option.value for option in self.decision.options]
        if chosen not in values:
            return {field: f"{field}={chosen!r} is not one of {', '.join(values)}"}
        asked = self.asked(chosen)
        unknown = sorted(set(given) - {field, "comment", *(each.field for each in asked)})
        if unknown:
            return {unknown[0]: f"{', '.join(unknown)} is not asked for with the decision {chosen!r}"}
        found: dict[str, str] = {}
        for each in asked:
            value = given.get(each.field, each.default)
            if value is None or value == "":
                if each.required:
                    found[each.field] = f"{each.field} is needed"
            elif problem := _misfit(each, value):
                found[each.field] = f"{each.field} {problem}"
        return found


def _misfit(asked: Input, value: Any) -> str | None:
    """Why a value does not fit its field."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match asked.kind:
        case "text" | "multiline":
            if not isinstance(value, str) or len(value) > asked.max_length:
                return f"must be text of at most {asked.max_length} characters"
        case "number" | "integer":
            if not is_number or (asked.kind == "integer" and value != int(value)):
                return f"must be a{'n integer' if asked.kind == 'integer' else ' number'}"
            if asked.minimum is not None and value < asked.minimum:
                return f"must be at least {asked.minimum:g}"
            if asked.maximum is not None and value > asked.maximum:
                return f"must be at most {asked.maximum:g}"
        case "boolean":
            return None if isinstance(value, bool) else "must be true or false"
        case "date":
            fits = isinstance(value, str) and _DATE.fullmatch(value) is not None
            return None if fits else "must be a date such as 2026-05-31"
        case "choice":
            return None if value in asked.choices else f"must be one of {', '.join(asked.choices)}"
        case "json":
            return None
    return None


def _looked_up(place: str, parameters: Mapping[str, Any], body: Any) -> str:
    first, *rest = place.split(".")
    value: Any = body if first == "body" and "body" not in parameters else parameters.get(first)
    for part in rest:
        value = value.get(part) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if value is None:
        raise BadReviewSpec(reason=f"there is nothing for {{{{{place}}}}}: give the parameter {first!r}")
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def decode_spec(data: bytes | str | msgspec.Raw) -> ReviewSpec:
    """A specification from JSON, checked."""
    try:
        return msgspec.json.decode(data, type=ReviewSpec).checked()
    except msgspec.DecodeError as error:
        raise BadReviewSpec(reason=str(error)) from None
