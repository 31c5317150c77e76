"""User data to bytes and back: plain msgpack, the bytes every ChasquiMQ shim reads.

`msgpack` and not msgspec writes it: msgspec would quietly turn sets, UUIDs and Decimals into something else, and what a
handler receives must be what the producer sent. What cannot travel is refused before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from relevo.errors import NotEncodable, Undecodable, WrongType

# One packer for all, since making one costs more than packing with it. It is reset after each value and each error, and
# nothing it does lets another thread in between.
_pack: Any = msgpack.Packer(use_bin_type=True).pack  # pyright: ignore[reportUnknownMemberType]
_unpack: Any = msgpack.unpackb  # pyright: ignore[reportUnknownMemberType]


def _extension(code: int, data: memoryview) -> Any:
    return msgpack.ExtType(code, bytes(data))


_decode = msgspec.msgpack.Decoder(ext_hook=_extension).decode


def encode_payload(data: object, job: str) -> bytes:
    r"""The bytes of `data`; `job` is the name an error should tell.

    >>> encode_payload({"i": 1}, "send")
    b'\x81\xa1i\x01'
    """
    try:
        return _pack(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotEncodable(job=job, reason=str(error) or type(error).__name__) from error


def decode_payload(payload: bytes) -> Any:
    r"""The data in `payload`.

    >>> decode_payload(b"\x81\xa1i\x01")
    {'i': 1}
    """
    try:
        # A timestamp (extension -1) may be in there: msgspec would make a datetime of it and drop the nanoseconds.
        if b"\xff" in payload:
            return _unpack(payload, raw=False, strict_map_key=False)
        return _decode(payload)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise Undecodable(size=len(payload), what="msgpack payload", reason=str(error)) from error


def bytes_only(data: object, _: str) -> bytes:
    """The payload of callers who encode for themselves, untouched."""
    if not isinstance(data, bytes | bytearray | memoryview):
        remedy = "`Queue` and `Worker` take any data and encode it."
        raise WrongType(argument="payload", value=data, expected="bytes", remedy=remedy)
    return bytes(data)  # pyright: ignore[reportUnknownArgumentType] - memoryview is generic in newer stubs only


class Codec(NamedTuple):
    """How user data becomes a payload, and a payload user data."""

    encode: Callable[[object, str], bytes]
    decode: Callable[[bytes], Any]


MSGPACK = Codec(encode_payload, decode_payload)
RAW = Codec(bytes_only, bytes)
