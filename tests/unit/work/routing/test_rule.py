import pytest

from relevo.errors import BadRule
from relevo.work.routing.rule import (
    Action,
    Drop,
    Escalate,
    Route,
    Rule,
    ToArchive,
    Transform,
    decode_rule,
    encode_rule,
)


def rule_of(*actions: Action, condition: str = "true") -> Rule:
    return Rule(name="late", trigger="message_published", condition=condition, actions=list(actions))


def test_a_rule_comes_back_from_json_as_it_went() -> None:
    rule = rule_of(
        Route(queue="audit", copy=True),
        Transform(set={"priority_score": "500"}, labels={"seen": "'yes'", "old": None}, body="body"),
        Escalate(tier="next", deadline_s=60, review={"pattern": "refund"}),
        Route(stream_queue="emails", job_name="send"),
        condition="body.late",
    )
    assert decode_rule(encode_rule(rule)) == rule


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (rule_of(), "no actions"),
        (rule_of(*[Drop()] * 21), "21 actions"),
        (rule_of(Drop(), ToArchive()), "nothing can follow"),
        (rule_of(Route()), "either `queue` or `stream_queue`"),
        (rule_of(Route(queue="a", stream_queue="b")), "either `queue` or `stream_queue`"),
        (rule_of(Route(stream_queue="b", scope="other")), "`scope` goes with `queue`"),
        (rule_of(Route(queue="a", job_name="b")), "`job_name` goes with"),
        (rule_of(Transform()), "changes nothing"),
        (rule_of(Escalate()), "does nothing"),
        (rule_of(Escalate(deadline_s=-1)), "in the past"),
        (rule_of(Drop(), condition="body.late >"), "Syntax error"),
        (rule_of(Transform(body="boddy.x")), "it names boddy"),
    ],
)
def test_a_bad_rule_says_what_is_wrong_with_it(rule: Rule, words: str) -> None:
    with pytest.raises(BadRule, match=words):
        rule.checked()


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "x", "trigger": "sometimes", "actions": [{"action": "drop"}]}',
        '{"name": "x", "trigger": "message_dead", "actions": [{"action": "explode"}]}',
        '{"name": "x", "trigger": "message_dead", "actions": [{"action": "drop", "why": 1}]}',
        '{"name": "x", "trigger": "message_dead", "actions": [{"action": "drop"}], "colour": 1}',
        "[]",
        "{",
    ],
)
def test_json_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(BadRule):
        decode_rule(text)
