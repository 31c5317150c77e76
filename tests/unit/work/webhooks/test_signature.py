import pytest

from relevo.errors import BadSignature
from relevo.work.webhooks.signature import sign, verify

BODY = b'{"event":"completed"}'


def test_a_signature_fits_its_body_and_secret() -> None:
    verify(sign(BODY, ["one"], 1000), BODY, "one", 1000)


def test_either_secret_of_a_rotation_fits() -> None:
    header = sign(BODY, ["old", "new"], 1000)
    verify(header, BODY, "old", 1000)
    verify(header, BODY, "new", 1000)


@pytest.mark.parametrize(
    ("header", "body", "secret", "now", "words"),
    [
        (sign(BODY, ["one"], 1000), BODY + b" ", "one", 1000, "does not fit"),
        (sign(BODY, ["one"], 1000), BODY, "two", 1000, "does not fit"),
        (sign(BODY, ["one"], 1000).replace("t=1000", "t=1001"), BODY, "one", 1000, "does not fit"),
        (sign(BODY, ["one"], 1000), BODY, "one", 1301, "301 s ago"),
        (sign(BODY, ["one"], 2000), BODY, "one", 1000, "ago"),
        ("v1=abc", BODY, "one", 1000, "no time"),
        ("t=1000", BODY, "one", 1000, "does not fit"),
        ("t=1000,t=1000,v1=é", BODY, "one", 1000, "no time"),
        ("t=1000,v1=é", BODY, "one", 1000, "does not fit"),
        ("", BODY, "one", 1000, "no time"),
    ],
)
def test_anything_else_is_refused(header: str, body: bytes, secret: str, now: int, words: str) -> None:
    with pytest.raises(BadSignature, match=words):
        verify(header, body, secret, now)
