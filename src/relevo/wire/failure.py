"""How a run failed, as it is kept while the job lives: the value of `:failure:<job id>`.

A msgpack array of maps, the newest last. relevo keeps one; a reader takes the last and leaves room for more.
"""

from __future__ import annotations

import msgspec


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One failed run. `attempt` counts from 1; `error` is `Type: message`, `traceback` the text Python would print.

    >>> Failure.last(Failure(2, 1_700_000_000_000, "KeyError: 'email'", "").encode())
    Failure(attempt=2, at_ms=1700000000000, error="KeyError: 'email'", traceback='', result_dropped=False)
    """

    attempt: int
    at_ms: int
    error: str
    traceback: str = ""
    result_dropped: bool = False
    """The run itself ended well: the job is done, and only what it returned could not be stored."""

    def encode(self) -> bytes:
        return _encode([self])

    @staticmethod
    def last(data: bytes | None) -> Failure | None:
        """The newest failure in `data`. Never fails: what cannot be read tells nothing, and stops nobody."""
        try:
            kept = _decode(data) if data else []
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return kept[-1] if kept else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Failure]).decode
