"""Checks what a caller says of a job, and makes its envelope: for the queue, the outbox and the Spark sink alike.

None of them lets through what another refuses: names, ids, sizes, attempts and delays are checked here and nowhere else.
"""

from __future__ import annotations

from relevo.errors import BadArgument, NameTooLong, PayloadTooLarge, WrongType
from relevo.wire.delays import run_at_ms
from relevo.wire.envelope import encode_bare
from relevo.wire.ids import IdMint
from relevo.wire.limits import QueueLimits
from relevo.wire.retry import RetryOverride

MAX_NAME_BYTES = 256
_MOST_NAMES = 1000  # names are few; a caller who makes them up must not fill our memory


class EnvelopeEncoder:
    """Makes the envelopes of one queue, with ids of its own minting. Belongs to one thread, as its ids do.

    >>> encoder = EnvelopeEncoder(QueueLimits(max_payload_bytes=100))
    >>> job_id, envelope = encoder.envelope("send", b"\\xc0", 1_700_000_000_000, job_id="order-17")
    >>> job_id, len(envelope), encoder.name("send")
    ('order-17', 23, b'send')
    """

    def __init__(self, limits: QueueLimits) -> None:
        self.mint: IdMint = IdMint()
        self._max_bytes = limits.max_payload_bytes
        self._max_delay_s = limits.max_delay_secs
        self._names: dict[str, bytes] = {}

    def name(self, name: str) -> bytes:
        """The job's name as it travels."""
        encoded = self._names.get(name) if name.__class__ is str else None
        if encoded is None:
            encoded = checked_job_name(name)
            if len(self._names) < _MOST_NAMES:
                self._names[name] = encoded
        return encoded

    def run_at(self, delay_ms: object, delay: object, now_ms: int) -> int | None:
        """When the job is due, or None for now; `delays.run_at_ms` says what may be written."""
        return run_at_ms(delay_ms, delay, now_ms=now_ms, max_delay_s=self._max_delay_s)

    def envelope(
        self, name: str, payload: bytes, now_ms: int, *, job_id: str | None = None, retry: RetryOverride | None = None
    ) -> tuple[str, bytes]:
        """The job's id (a new one, or the caller's own) and its envelope."""
        job_id = self.mint(now_ms) if job_id is None else checked_job_id(job_id)
        head = (job_id, payload, now_ms, 0)
        envelope = encode_bare(head if retry is None else (*head, retry))
        if len(envelope) > self._max_bytes:
            raise PayloadTooLarge(job=name, size=len(envelope), limit=self._max_bytes)
        return job_id, envelope


def checked_job_name(name: object) -> bytes:
    """The name as it travels: UTF-8, at most 256 bytes."""
    if not isinstance(name, str):
        raise WrongType(argument="name", value=name, expected="str")
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise BadArgument(argument="name", value=name, reason="not UTF-8", remedy="Use ordinary text.") from error
    if len(encoded) > MAX_NAME_BYTES:
        raise NameTooLong(name=name, size=len(encoded))
    return encoded


def checked_job_id(job_id: object) -> str:
    return checked_text("job_id", job_id, "Leave it out, or pass an id.")


def checked_text(argument: str, text: object, remedy: str) -> str:
    """What names something: text that is not blank and that Redis can keep; `remedy` is for one that is blank."""
    if not isinstance(text, str):
        raise WrongType(argument=argument, value=text, expected="str")
    if not text.strip():
        raise BadArgument(argument=argument, value=text, reason="must not be blank", remedy=remedy)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadArgument(argument=argument, value=text, reason="not UTF-8", remedy="Use ordinary text.") from error
    return text
