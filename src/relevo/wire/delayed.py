"""A member of the delayed set: `u32 LE length of name, name, envelope`. Delayed adds, retries and future fires share it."""

from __future__ import annotations

from typing import NamedTuple

from relevo.errors import Undecodable


class DelayedMember(NamedTuple):
    """A job that waits for its time.

    >>> DelayedMember("send", b"\\x94").encode()
    b'\\x04\\x00\\x00\\x00send\\x94'
    >>> DelayedMember.decode(b"\\x04\\x00\\x00\\x00send\\x94")
    DelayedMember(name='send', envelope=b'\\x94')
    """

    name: str
    envelope: bytes

    def encode(self) -> bytes:
        name = self.name.encode()
        return len(name).to_bytes(4, "little") + name + self.envelope

    @staticmethod
    def decode(member: bytes) -> DelayedMember:
        """Reads today's layout, and the 1-byte prefix that ChasquiMQ's pages describe. `promote.lua` does the same."""
        start = 4
        size = int.from_bytes(member[:4], "little")
        if len(member) < 4 or size > len(member) - 4:
            start, size = 1, member[0] if member else 0
            if len(member) < 2 + size or not _starts_array(member[1 + size]):
                raise Undecodable(size=len(member), what="delayed member", reason="its length prefix points outside it")
        try:
            name = member[start : start + size].decode()
        except UnicodeDecodeError as error:
            raise Undecodable(size=len(member), what="delayed member", reason="its name is not UTF-8") from error
        return DelayedMember(name, member[start + size :])


def _starts_array(byte: int) -> bool:
    return 0x90 <= byte <= 0x9F or byte in (0xDC, 0xDD)
