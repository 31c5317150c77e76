"""A member of the delayed set: both layouts, and what is neither."""

import pytest

from relevo.errors import Undecodable
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope

JOB = Envelope("01J9", b"\xc0", 1).encode()


@pytest.mark.parametrize("name", ["", "send", "größe", "n" * 256])
def test_a_member_is_a_four_byte_length_the_name_and_the_envelope(name: str) -> None:
    encoded = name.encode()
    member = DelayedMember(name, JOB).encode()
    assert member == len(encoded).to_bytes(4, "little") + encoded + JOB
    assert DelayedMember.decode(member) == (name, JOB)


@pytest.mark.parametrize("name", ["", "a", "send", "n" * 255])
def test_the_older_one_byte_length_is_read_too(name: str) -> None:
    assert DelayedMember.decode(bytes([len(name)]) + name.encode() + JOB) == (name, JOB)


@pytest.mark.parametrize(
    "member", [b"", b"\x00", b"\xff", b"\x01ab", b"\xff\xff\xff\xff" + JOB, b"text that is no member", b"\x04send"]
)
def test_what_is_neither_is_refused(member: bytes) -> None:
    with pytest.raises(Undecodable, match="delayed member"):
        DelayedMember.decode(member)


def test_a_name_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(Undecodable, match="UTF-8"):
        DelayedMember.decode(b"\x01\x00\x00\x00\xff" + JOB)
