from typing import Any

import pytest

from relevo.errors import BadDecision, BadReviewSpec
from relevo.work.review.spec import Decision, Escalation, Input, Option, ReviewSpec, Section, decode_spec

REFUND = ReviewSpec(
    title="Refund {{order}}",
    context=[Section("Customer", "{{body.customer.name}} wants {{body.amount}}")],
    decision=Decision([Option("pay"), Option("refuse")], field="verdict"),
    input=[
        Input(field="amount", kind="number", required=True, minimum=0, maximum=500, only_for=["pay"]),
        Input(field="method", kind="choice", choices=["card", "cash"], default="card", only_for=["pay"]),
        Input(field="why", kind="multiline", required=True, max_length=20, only_for=["refuse"]),
        Input(field="day", kind="date"),
    ],
)


def test_places_are_filled_from_parameters_and_from_the_body() -> None:
    filled = REFUND.filled({"order": 17}, {"customer": {"name": "Ada"}, "amount": 12.5})
    assert filled.title == "Refund 17"
    assert filled.context[0].content == "Ada wants 12.5"


def test_a_place_without_a_value_is_an_error_and_no_blank() -> None:
    with pytest.raises(BadReviewSpec, match="order"):
        REFUND.filled({}, {"customer": {"name": "Ada"}, "amount": 1})


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    assert ReviewSpec(title="{{a}}").filled({"a": "{{b}}", "b": "secret"}).title == "{{b}}"


def test_places_lists_the_parameters_but_not_the_body() -> None:
    assert REFUND.places() == {"order"}


def test_an_answer_gets_its_defaults() -> None:
    assert REFUND.answer({"verdict": "pay", "amount": 20}) == {"verdict": "pay", "amount": 20, "method": "card"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "verdict=None is not one of pay, refuse"),
        ({"verdict": "maybe"}, "maybe"),
        ({"verdict": "pay"}, "amount is needed"),
        ({"verdict": "pay", "amount": "20"}, "amount must be a number"),
        ({"verdict": "pay", "amount": True}, "amount must be a number"),
        ({"verdict": "pay", "amount": -1}, "at least 0"),
        ({"verdict": "pay", "amount": 501}, "at most 500"),
        ({"verdict": "pay", "amount": 1, "method": "shells"}, "one of card, cash"),
        ({"verdict": "pay", "amount": 1, "why": "no"}, "why is not asked for"),
        ({"verdict": "refuse", "why": "x" * 21}, "at most 20 characters"),
        ({"verdict": "refuse", "why": "old", "day": "2026-13-01"}, "day must be a date"),
        ({"verdict": "refuse", "why": "old", "extra": 1}, "extra is not asked for"),
    ],
)
def test_a_wrong_answer_names_the_field(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadDecision, match=words):
        REFUND.answer(given)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ReviewSpec(decision=Decision([])), "options"),
        (ReviewSpec(decision=Decision([Option("a"), Option("a")])), "different"),
        (ReviewSpec(input=[Input(field="a b")]), "no name for a field"),
        (ReviewSpec(input=[Input(field="a"), Input(field="a")]), "same name"),
        (ReviewSpec(input=[Input(field="comment")]), "field of ours"),
        (ReviewSpec(input=[Input(field="a", kind="choice")]), "choices"),
        (ReviewSpec(input=[Input(field="a", only_for=["later"])]), "only_for"),
        (ReviewSpec(input=[Input(field="a", kind="integer", default=1.5)]), "default must be an integer"),
        (ReviewSpec(assignees=["ada"], quorum=2), "quorum of 2"),
        (ReviewSpec(on_timeout="escalate"), "needs `timeout_s`"),
        (ReviewSpec(on_timeout="escalate", timeout_s=5), "escalate_to"),
        (ReviewSpec(on_timeout="complete", timeout_s=5), "`default` goes with"),
        (ReviewSpec(on_timeout="complete", timeout_s=5, default={"decision": "?"}), "default is no answer"),
        (
            ReviewSpec(on_timeout="escalate", timeout_s=5, quorum=2, escalate_to=Escalation(assignees=["ada"])),
            "quorum of 2",
        ),
    ],
)
def test_a_bad_specification_is_refused_before_anyone_is_asked(spec: ReviewSpec, words: str) -> None:
    with pytest.raises(BadReviewSpec, match=words):
        spec.checked()


@pytest.mark.parametrize("text", ['{"quorum": 0}', '{"timeout_s": 0}', '{"colour": 1}', "[]", '{"on_timeout": "pray"}'])
def test_json_that_is_no_specification_is_refused(text: str) -> None:
    with pytest.raises(BadReviewSpec):
        decode_spec(text)
