"""A frame: many jobs in one stream entry, in field `d` where one envelope would stand. An option of relevo's producers.

`["relevo-frame", 1, [[name, envelope], ...]]` in msgpack. As an envelope it cannot be read (its second element is no payload),
so a worker that knows nothing of frames dead-letters it with its bytes and runs nothing. See docs/decisions/0009.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from relevo.errors import Undecodable
from relevo.wire.envelope import Envelope, encode_bare

_WORD, _VERSION = "relevo-frame", 1
_BEGINNING = encode_bare((_WORD, _VERSION, ()))[:-1]  # without the empty array at its end
MOST_JOBS = 1000
"""In one frame: what one of them waits for, all others wait for."""


Job = tuple[bytes, bytes]
"""Envelope and name."""


class FramedJob(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """One job of a frame."""

    name: str
    envelope: Envelope


def is_frame(data: bytes) -> bool:
    return data.startswith(_BEGINNING)


def framed(jobs: Sequence[Job], *, most: int, max_bytes: int) -> list[Job]:
    """Jobs (each an envelope and a name) as entries of at most `most` jobs and `max_bytes`: frames without a name, or the
    job itself where it would be alone."""
    entries: list[Job] = []
    held: list[Job] = []
    room = max_bytes

    def close() -> None:
        entries.append(held[0] if len(held) == 1 else (encode_frame(held), b""))
        held.clear()

    for job in jobs:
        size = len(job[0]) + len(job[1]) + 4
        if held and (len(held) == most or size > room):
            close()
        if not held:
            room = max_bytes - len(_BEGINNING) - 3
        held.append(job)
        room -= size
    if held:
        close()
    return entries


def encode_frame(jobs: Sequence[Job]) -> bytes:
    r"""One frame.

    >>> frame = encode_frame([(Envelope("01J9", b"\xc0", 1_700_000_000_000).encode(), b"send")])
    >>> is_frame(frame), decode_frame(frame)[0].name
    (True, 'send')
    """
    heads: dict[bytes, bytes] = {}  # a pair's beginning and its name: few names, many jobs
    count = len(jobs)
    parts = [_BEGINNING, bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2, "big")]
    for envelope, name in jobs:
        pair = heads.get(name)
        if pair is None:
            pair = heads[name] = b"\x92" + encode_bare(name.decode())
        parts.append(pair)
        parts.append(envelope)
    return b"".join(parts)


def decode_frame(data: bytes) -> list[FramedJob]:
    """Its jobs, or `Undecodable`."""
    try:
        jobs = _decode(data)[2]
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Undecodable(size=len(data), what="frame of jobs", reason=str(error)) from error
    if not jobs:
        raise Undecodable(size=len(data), what="frame of jobs", reason="it has no jobs")
    return jobs


_decode = msgspec.msgpack.Decoder(tuple[str, int, list[FramedJob]]).decode
