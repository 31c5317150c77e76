import pytest

from relevo.errors import BadSchema, SchemaInvalid
from relevo.work.schemas.checker import Checker

ORDER = (
    '{"type": "object", "required": ["amount"], "additionalProperties": false,'
    ' "properties": {"amount": {"$ref": "#/$defs/money"}, "lines": {"type": "array", "items": {"type": "string"}}},'
    ' "$defs": {"money": {"type": "integer", "minimum": 0}}}'
)


def test_a_body_that_fits_has_no_faults() -> None:
    assert Checker(ORDER).faults(b'{"amount": 3, "lines": ["a"]}') == []
    assert Checker(ORDER).fits(b'{"amount": 3}')


def test_a_refusal_names_the_schema_and_the_place() -> None:
    with pytest.raises(SchemaInvalid, match=r"'order', version 3: .*lines\.1"):
        Checker(ORDER).check(b'{"amount": 1, "lines": ["a", 2]}', "order", 3)


def test_of_many_faults_the_first_few_are_named() -> None:
    faults = Checker(ORDER).faults(('{"amount": 1, "lines": [' + ",".join("1" * 20) + "]}").encode())
    assert len(faults) == 6
    assert faults[-1] == "and 15 more"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{", "not JSON"),
        ("[]", "boolean"),
        ('{"type": "nonsense"}', "nonsense"),
        ('{"$ref": "https://example.org/other.json"}', "outside this schema"),
        ('{"$ref": "file:///etc/passwd"}', "outside this schema"),
        ('{"$ref": "#/$defs/missing"}', "missing"),
        ('{"pattern": "("}', "(?i)regex|pattern"),
        ('{"$schema": "https://example.org/dialect"}', "meta-schema|outside"),
        ('{"not": ' * 70 + "true" + "}" * 70, "nested"),
        ('{"title": "' + "a" * 300_000 + '"}', "longer than"),
    ],
)
def test_a_bad_schema_is_refused_when_it_is_saved(source: str, words: str) -> None:
    with pytest.raises(BadSchema, match=words):
        Checker(source)


def test_a_pattern_that_explodes_elsewhere_answers_at_once() -> None:
    checker = Checker('{"pattern": "^(a+)+$"}')
    assert not checker.fits(('"' + "a" * 50_000 + 'b"').encode())
