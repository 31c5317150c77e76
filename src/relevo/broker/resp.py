"""Commands to bytes, and what comes back. RESP2 both ways: every server speaks it and replies are plain lists and bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis

Argument = bytes | str | int | float
Reply = Any  # bytes, int, None, ReplyError, or a list of these


class ReplyError(Exception):
    """An error reply, kept as a value among the other replies of a pipeline. `code` is its first word."""

    @property
    def code(self) -> str:
        return str(self).split(" ", 1)[0]


# Whatever the command, these mean "not carried out here, not now": look the server up again and send once more.
ELSEWHERE = frozenset(
    {"MOVED", "ASK", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS"}
)

pack = cast("Callable[[Sequence[Argument]], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType]


def command(*arguments: Argument) -> bytes:
    r"""One command as bytes.

    >>> command("PING", "hi")
    b'*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n'
    """
    return pack(arguments)


def head(arguments: int, *first: Argument) -> bytes:
    r"""The beginning of a command of `arguments` arguments; the rest is appended with `bulk`. For commands sent often.

    >>> head(2, "PING") + bulk(b"hi") == command("PING", "hi")
    True
    """
    packed = pack(first)
    return b"*%d" % arguments + packed[packed.index(b"\r\n") :]


def bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """A flat reply `[k, v, k, v]` as a dict."""
    return dict(zip(flat[::2], flat[1::2], strict=False))
