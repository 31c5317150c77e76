"""The form of a review: what people typed, as an answer; and what is wrong with it, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from relevo.work.review.spec import Input, ReviewSpec

BODY = "corrected_body"


def name_of(field: str) -> str:
    """Under which name a field of the specification stands in the form: none that it may choose is one of ours."""
    return f"field-{field}"


class AnswerForm(msgspec.Struct, kw_only=True):
    """What was typed (`typed`, as it was), what it stands for, and the faults by field."""

    typed: dict[str, str]
    answer: dict[str, Any] = {}
    corrected_body: Any = None
    faults: dict[str, str] = {}


def read_answer(spec: ReviewSpec, fields: Mapping[str, str], body: bytes | None) -> AnswerForm:
    """`body` is what the message says now: a correction that changes nothing is none.

    >>> typed = {"field-decision": "approve", "corrected_body": '{"n": 2}'}
    >>> form = read_answer(ReviewSpec(may_correct=True), typed, b'{"n":1}')
    >>> form.answer, form.corrected_body, form.faults
    ({'decision': 'approve'}, {'n': 2}, {})
    """
    form = AnswerForm(typed=dict(fields), answer={}, faults={})
    chosen = fields.get(name_of(spec.decision.field))
    if chosen is None:
        form.faults[name_of(spec.decision.field)] = "choose one"
    else:
        form.answer[spec.decision.field] = chosen
    for asked in spec.asked(chosen):
        _read_field(form, asked, fields.get(name_of(asked.field), ""))
    if fields.get("comment", "").strip():
        form.answer["comment"] = fields["comment"]
    if chosen is not None:
        for field, fault in spec.faults(form.answer).items():
            form.faults.setdefault(name_of(field), fault.removeprefix(f"{field} "))
    if spec.may_correct and body is not None and BODY in fields:
        _read_correction(form, fields[BODY], body)
    form.faults = {field: fault[:1].upper() + fault[1:] for field, fault in form.faults.items()}
    return form


def _read_field(form: AnswerForm, asked: Input, text: str) -> None:
    if asked.kind == "boolean":
        form.answer[asked.field] = text == "true"
        return
    if not text.strip():
        if not asked.required:
            form.answer[asked.field] = ""  # what was emptied stays empty: the default was there to be seen
        return
    try:
        form.answer[asked.field] = _value(asked, text)
    except (ValueError, msgspec.DecodeError) as error:
        wants = {"integer": "must be an integer", "number": "must be a number"}
        form.faults[name_of(asked.field)] = wants.get(asked.kind, f"is no JSON: {error}")


def _value(asked: Input, text: str) -> Any:
    match asked.kind:
        case "integer":
            return int(text)
        case "number":
            value = float(text)
            if value != value or value in (float("inf"), float("-inf")):
                raise ValueError(text)
            return int(value) if text.strip().lstrip("+-").isdecimal() else value  # 900, as they wrote it, not 900.0
        case "json":
            return msgspec.json.decode(text)
        case _:
            return text


def _read_correction(form: AnswerForm, text: str, body: bytes) -> None:
    try:
        corrected = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        form.faults[BODY] = f"is no JSON: {error}"
        return
    if corrected == msgspec.json.decode(body):
        return
    if corrected is None:
        form.faults[BODY] = "cannot be null: reject the message instead"
    else:
        form.corrected_body = corrected
