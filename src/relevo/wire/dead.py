"""A dead letter: an entry of the `:dlq` stream, with the job's bytes, where it came from and why it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from relevo.errors import Undecodable
from relevo.wire.envelope import Envelope
from relevo.wire.failure import Failure


class Reason(StrEnum):
    """Why a job was dead-lettered."""

    RETRIES_EXHAUSTED = "retries_exhausted"
    UNRECOVERABLE = "unrecoverable"
    STALLED = "stalled"
    DECODE_FAILED = "decode_failed"
    MALFORMED = "malformed"
    OVERSIZE_PAYLOAD = "oversize_payload"


class DeadLetterFields(NamedTuple):
    """The fields of one entry: `d, [n], source_id, reason, [detail], [raw], [attempts], [traceback]`.

    The last three are ours. `raw`: an entry without a usable `d` keeps all the fields it had, as a msgpack array of names and
    values. `attempts`: how often the job was run. `traceback`: of its last run.

    >>> DeadLetterFields(b"\\x94", "send", "1-0", "malformed", "").encode()
    [b'd', b'\\x94', b'n', b'send', b'source_id', b'1-0', b'reason', b'malformed']
    """

    d: bytes
    name: str
    source_id: str
    reason: str
    detail: str
    raw: bytes = b""
    attempts: int | None = None
    traceback: str = ""

    def encode(self) -> list[bytes]:
        fields = [b"d", self.d]
        if self.name:
            fields += (b"n", self.name.encode())
        fields += (b"source_id", self.source_id.encode(), b"reason", self.reason.encode())
        if self.detail:
            fields += (b"detail", self.detail.encode(errors="replace"))
        if self.raw:
            fields += (b"raw", self.raw)
        if self.attempts is not None:
            fields += (b"attempts", b"%d" % self.attempts)
        if self.traceback:
            fields += (b"traceback", self.traceback.encode(errors="replace"))
        return fields

    @property
    def attempts_made(self) -> int | None:
        """How often the job was run; of letters that do not say it, by their reason. None when there is no job in it."""
        if self.attempts is not None:
            return self.attempts
        try:
            before = Envelope.decode(self.d).attempt
        except Undecodable:
            return None
        return before + (self.reason in (Reason.RETRIES_EXHAUSTED, Reason.UNRECOVERABLE))

    def failure(self, at_ms: int) -> Failure | None:
        """How its last run failed; None when no run did."""
        ran = self.traceback or self.reason in (Reason.RETRIES_EXHAUSTED, Reason.UNRECOVERABLE)
        return Failure(self.attempts_made or 0, at_ms, self.detail, self.traceback) if ran and self.detail else None

    @staticmethod
    def decode(fields: Mapping[bytes, bytes]) -> DeadLetterFields:
        def text(field: bytes) -> str:
            return fields.get(field, b"").decode(errors="replace")

        return DeadLetterFields(
            fields.get(b"d", b""),
            text(b"n"),
            text(b"source_id"),
            text(b"reason"),
            text(b"detail"),
            fields.get(b"raw", b""),
            int(made) if (made := text(b"attempts")).isdecimal() and made.isascii() and len(made) < 10 else None,
            text(b"traceback"),
        )


def encode_raw(fields: Sequence[bytes]) -> bytes:
    """All fields of a malformed entry in one value; `decode_raw` gives them back."""
    return msgspec.msgpack.encode(list(fields))


def decode_raw(raw: bytes) -> list[bytes]:
    return msgspec.msgpack.decode(raw, type=list[bytes])
