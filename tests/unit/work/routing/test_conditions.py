import pytest

from relevo.errors import BadExpression, ExpressionFailed
from relevo.work.routing.conditions import Expression

SEEN = {
    "message": {"type": "order", "priority_tier": "high", "attempts": 2},
    "labels": {"region": "eu"},
    "body": {"amount": 250, "lines": [1, 2, 3]},
    "queue": {"slug": "orders"},
    "now": 1_700_000_000_000,
}


@pytest.mark.parametrize(
    "source",
    [
        "body.amount > 100",
        "labels.region == 'eu' && message.attempts >= 2",
        "body.lines.exists(line, line == 2)",
        "body.lines.all(a, body.lines.exists(b, a == b))",
        "!has(body.discount)",
        "queue.slug.startsWith('ord')",
        "size(body.lines) == 3",
        "body.note == '.map(x, foo(' || true",
    ],
)
def test_a_condition_that_holds(source: str) -> None:
    assert Expression(source).holds(SEEN)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("body.amount >", "Syntax error"),
        ("amount > 100", "it names amount"),
        ("shout(body.amount)", "no function shout"),
        ("body.a.all(x, body.a.all(y, body.a.all(z, z > y)))", "nested"),
        ("true" + " || true" * 1000, "longer than"),
        ("", "Syntax error"),
    ],
)
def test_a_bad_expression_is_refused_when_it_is_saved(source: str, words: str) -> None:
    with pytest.raises(BadExpression, match=words):
        Expression(source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("body.discount > 1", "no field 'discount'"),
        ("body.amount / 0 > 1", "zero"),
        ("body.amount > 1.5 && body.amount + 0.5 > 1.0", "same type|coerce|Unsupported"),
        ("body.amount", "not true or false"),
        ("labels.region", "not true or false"),
    ],
)
def test_an_expression_without_an_answer_names_itself_and_the_reason(source: str, words: str) -> None:
    with pytest.raises(ExpressionFailed, match=words) as failed:
        Expression(source).holds(SEEN)
    assert source in str(failed.value)


def test_a_loop_in_quotes_does_not_count_as_a_loop() -> None:
    assert Expression("'.all(.all(.all(' == '.all(.all(.all('").holds(SEEN)
