"""The repeat spec: what stands in field `spec` of a schedule's hash, a msgpack array of 8, 9 or 10 elements.

`[key, job_name, pattern, payload, limit, start_after_ms, end_before_ms, fired, missed_fires?, retry?]`. Written as
short as it can be: a ChasquiMQ 1.3.0 scheduler drops a spec of ten elements, so the tenth is there only when needed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from relevo.errors import Undecodable
from relevo.wire.retry import RetryOverride


class CronPattern(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Fires at the times a cron expression names, `{"Cron": [expression, tz]}`. Both are kept exactly as written.

    >>> CronPattern("0 9 * * *").signature
    'cron:0 9 * * *:UTC'
    """

    expression: str
    tz: str | None = None

    @property
    def signature(self) -> str:
        return f"cron:{self.expression}:{'UTC' if self.tz is None else self.tz}"


class EveryPattern(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Fires each time an interval has passed, `{"Every": [interval_ms]}`.

    >>> EveryPattern(60_000).signature
    'every:60000'
    """

    interval_ms: int

    @property
    def signature(self) -> str:
        return f"every:{self.interval_ms}"


class FireAll(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Make missed fires, `max_catchup` of them at most, `{"FireAll": [max_catchup]}`."""

    max_catchup: int


Pattern = CronPattern | EveryPattern
MissedFires = Literal["Skip", "FireOnce"] | FireAll


def derived_key(job_name: str, pattern: Pattern) -> str:
    """The key of a schedule whose owner gave none. Nothing is normalised: other spaces are another schedule.

    >>> derived_key("weekly-report", CronPattern("0 9 * * 1", "Europe/Madrid"))
    'weekly-report::cron:0 9 * * 1:Europe/Madrid'
    >>> derived_key("ping", EveryPattern(60_000))
    'ping::every:60000'
    """
    return f"{job_name}::{pattern.signature}"


class RepeatSpec(msgspec.Struct, frozen=True):
    """One schedule as it is stored. `payload` is the msgpack of the job's data, as in an envelope.

    >>> spec = RepeatSpec("ping::every:60000", "ping", EveryPattern(60_000), b"\\xc0")
    >>> RepeatSpec.decode(spec.encode()) == spec
    True
    """

    key: str
    job_name: str
    pattern: Pattern
    payload: bytes
    limit: int | None = None
    start_after_ms: int | None = None
    end_before_ms: int | None = None
    missed_fires: MissedFires = "Skip"
    retry: RetryOverride | None = None

    def encode(self) -> bytes:
        """The bytes ChasquiMQ writes for the same schedule; nine or ten elements only where eight cannot tell."""
        eight = (
            self.key,
            self.job_name,
            _tagged(self.pattern),
            _encode(self.payload),  # bin inside bin: the outer one holds what the envelope will hold
            self.limit,
            self.start_after_ms,
            self.end_before_ms,
            0,  # fires are counted in the hash field `fired`; this slot has never been used
        )
        if self.retry is not None:
            return _encode((*eight, _missed_form(self.missed_fires), self.retry))
        if self.missed_fires != "Skip":
            return _encode((*eight, _missed_form(self.missed_fires)))
        return _encode(eight)

    @staticmethod
    def decode(data: bytes) -> RepeatSpec:
        """The schedule in `data`, in any of the three lengths, or `Undecodable`."""
        try:
            stored = _decode(data)
            payload = _decode_payload(stored.payload)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Undecodable(size=len(data), what=_WHAT, reason=str(error)) from error
        pattern = stored.pattern.Cron or stored.pattern.Every
        if pattern is None or (stored.pattern.Cron is not None and stored.pattern.Every is not None):
            raise Undecodable(size=len(data), what=_WHAT, reason="the pattern must be one of Cron and Every")
        spec = RepeatSpec(
            stored.key,
            stored.job_name,
            pattern,
            payload,
            stored.limit,
            stored.start_after_ms,
            stored.end_before_ms,
            _missed_value(stored.missed_fires),
            stored.retry,
        )
        _refuse_negative(spec, len(data))
        return spec


class _TaggedPattern(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    # A map with one entry whose key is the variant: the attribute names are the bytes on the wire.
    Cron: CronPattern | None = None
    Every: EveryPattern | None = None


class _TaggedMissed(msgspec.Struct, forbid_unknown_fields=True):
    FireAll: FireAll


class _Stored(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    key: str
    job_name: str
    pattern: _TaggedPattern
    payload: bytes
    limit: int | None
    start_after_ms: int | None
    end_before_ms: int | None
    fired: int
    missed_fires: Literal["Skip", "FireOnce"] | _TaggedMissed | None = None
    retry: RetryOverride | None = None


_WHAT = "repeat spec"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode
_decode_payload = msgspec.msgpack.Decoder(bytes).decode


def _tagged(pattern: Pattern) -> _TaggedPattern:
    if isinstance(pattern, CronPattern):
        return _TaggedPattern(Cron=pattern)
    return _TaggedPattern(Every=pattern)


def _missed_form(missed: MissedFires) -> str | _TaggedMissed:
    return _TaggedMissed(missed) if isinstance(missed, FireAll) else missed


def _missed_value(form: Literal["Skip", "FireOnce"] | _TaggedMissed | None) -> MissedFires:
    if form is None:
        return "Skip"
    return form.FireAll if isinstance(form, _TaggedMissed) else form


def _refuse_negative(spec: RepeatSpec, size: int) -> None:
    """Every number on the wire is unsigned; a negative one would make a schedule that is due for ever."""
    numbers = {
        "interval_ms": spec.pattern.interval_ms if isinstance(spec.pattern, EveryPattern) else None,
        "limit": spec.limit,
        "start_after_ms": spec.start_after_ms,
        "end_before_ms": spec.end_before_ms,
        "max_catchup": spec.missed_fires.max_catchup if isinstance(spec.missed_fires, FireAll) else None,
    }
    for name, number in numbers.items():
        if number is not None and number < 0:
            raise Undecodable(size=size, what=_WHAT, reason=f"{name} is {number}, and must not be negative")
