"""The envelope: what stands in field `d` of a stream entry, `[id, payload, created_at_ms, attempt, retry?]` in msgpack.

The payload is bytes inside the envelope (msgpack in msgpack), so an engine can move a job without reading its data.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from relevo.errors import Undecodable
from relevo.wire.retry import RetryOverride

Natural = Annotated[int, msgspec.Meta(ge=0)]


class Envelope(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """One job as it travels.

    >>> Envelope.decode(Envelope("01J9", b"\\xc0", 1_700_000_000_000).encode())
    Envelope(id='01J9', payload=b'\\xc0', created_at_ms=1700000000000, attempt=0, retry=None)
    """

    id: str
    payload: bytes
    created_at_ms: Natural
    attempt: Natural = 0
    retry: RetryOverride | None = None

    def encode(self) -> bytes:
        if self.retry is None:  # four elements: a reader from before the override existed still takes it
            return encode_bare((self.id, self.payload, self.created_at_ms, self.attempt))
        return encode_bare((self.id, self.payload, self.created_at_ms, self.attempt, self.retry))

    def with_attempt(self, attempt: int) -> Envelope:
        return Envelope(self.id, self.payload, self.created_at_ms, attempt, self.retry)

    @staticmethod
    def decode(data: bytes) -> Envelope:
        """The envelope in `data`, or `Undecodable`. Accepts every form ChasquiMQ's own reader accepts."""
        try:
            return _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # msgspec lets the latter through for text that is not UTF-8
            return _decode_leniently(data)


encode_bare = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode
_FIELDS = ("id", "payload", "created_at_ms", "attempt", "retry")


def _decode_leniently(data: bytes) -> Envelope:
    """The rarer shapes: a map by field names, a payload as an array of bytes, something behind the value."""
    try:
        # No part is longer than the whole: a length made up to take our memory is refused before it does.
        unpacker: Any = msgpack.Unpacker(raw=False, strict_map_key=False, max_buffer_size=max(len(data), 1))
        unpacker.feed(data)
        value: object = unpacker.unpack()
    except Exception as error:
        raise Undecodable(size=len(data), what="job envelope", reason=f"not msgpack: {error}") from error
    if isinstance(value, dict):
        by_name = cast("dict[object, object]", value)
        items = [by_name.get(field) for field in _FIELDS]
        if items[3] is None:
            items[3] = 0
    elif isinstance(value, list):
        items = list(cast("list[object]", value))
    else:
        raise Undecodable(size=len(data), what="job envelope", reason=f"expected an array, got {type(value).__name__}")
    if len(items) > 1 and isinstance(items[1], list):
        try:
            items[1] = bytes(cast("list[int]", items[1]))
        except (TypeError, ValueError) as error:
            raise Undecodable(size=len(data), what="job envelope", reason="a payload that is not bytes") from error
    if len(items) > 1 and isinstance(items[1], str):  # msgspec would read text as base64
        raise Undecodable(size=len(data), what="job envelope", reason="a payload that is text")
    try:
        return msgspec.convert(items, Envelope)
    except msgspec.ValidationError as error:
        raise Undecodable(size=len(data), what="job envelope", reason=str(error)) from error
