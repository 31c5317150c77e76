"""What a schedule is made of, as its owner writes it: when it repeats, and what becomes of fires that were missed.

The names, arguments and dict forms are those of ChasquiMQ's Python package. Nothing here is checked against a calendar:
an expression, a zone or an interval that cannot be used is refused when the schedule is upserted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relevo.errors import BadArgument, BadInterval, WrongType
from relevo.wire.repeat import CronPattern, EveryPattern, FireAll, MissedFires, Pattern, RepeatSpec

_MOST_CATCHUPS = 2**32 - 1  # the field is 32 bits wide where ChasquiMQ reads it


@dataclass(frozen=True, slots=True)
class RepeatPattern:
    """When a schedule fires. Write `RepeatPattern.cron(...)` or `RepeatPattern.every(...)`.

    >>> RepeatPattern.cron("0 9 * * MON-FRI", tz="Europe/Madrid").to_dict()
    {'kind': 'cron', 'expression': '0 9 * * MON-FRI', 'tz': 'Europe/Madrid'}
    >>> RepeatPattern.every(60_000).interval_ms
    60000
    """

    kind: str
    expression: str | None = None
    tz: str | None = None
    interval_ms: int | None = None

    @staticmethod
    def cron(expression: str, tz: str | None = None) -> RepeatPattern:
        """Fire at the times `expression` names, in `tz`: "UTC" (as None is), "+05:30", or "America/New_York"."""
        return RepeatPattern("cron", expression=expression, tz=tz)

    @staticmethod
    def every(interval_ms: int) -> RepeatPattern:
        """Fire each `interval_ms` milliseconds, for the first time one interval after the upsert."""
        return RepeatPattern("every", interval_ms=interval_ms)

    @staticmethod
    def of(value: RepeatPattern | Mapping[str, Any]) -> RepeatPattern:
        """The pattern itself, or the one its dict form means.

        >>> RepeatPattern.of({"kind": "every", "interval_ms": 500}) == RepeatPattern.every(500)
        True
        """
        if isinstance(value, RepeatPattern):
            return value
        form = _mapping("repeat", value, "RepeatPattern.cron(...) or RepeatPattern.every(...)")
        kind = form.get("kind")
        if kind == "cron":
            return RepeatPattern.cron(_entry("repeat", form, "expression"), form.get("tz"))
        if kind == "every":
            return RepeatPattern.every(_json_whole(_entry("repeat", form, "interval_ms")))
        raise BadArgument(argument="repeat kind", value=kind, reason="unknown", remedy="Write 'cron' or 'every'.")

    def to_dict(self) -> dict[str, Any]:
        """The dict form that `of` reads."""
        if self.kind == "cron":
            return {"kind": "cron", "expression": self.expression} | ({} if self.tz is None else {"tz": self.tz})
        if self.kind == "every":
            return {"kind": "every", "interval_ms": self.interval_ms}
        raise BadArgument(argument="repeat kind", value=self.kind, reason="unknown", remedy="Write 'cron' or 'every'.")

    def to_wire(self) -> Pattern:
        """The pattern as a repeat spec holds it."""
        if self.kind == "cron":
            return CronPattern(_text("expression", self.expression), None if self.tz is None else _text("tz", self.tz))
        if self.kind == "every":
            return EveryPattern(_interval(self.interval_ms))
        raise BadArgument(argument="repeat kind", value=self.kind, reason="unknown", remedy="Write 'cron' or 'every'.")

    @staticmethod
    def from_wire(pattern: Pattern) -> RepeatPattern:
        if isinstance(pattern, CronPattern):
            return RepeatPattern.cron(pattern.expression, pattern.tz)
        return RepeatPattern.every(pattern.interval_ms)


@dataclass(frozen=True, slots=True)
class MissedFiresPolicy:
    """What to do about the fires that passed while no scheduler ran. Without one they are skipped.

    >>> MissedFiresPolicy.fire_all(24).to_dict()
    {'kind': 'fire-all', 'max_catchup': 24}
    """

    kind: str
    max_catchup: int | None = None

    @staticmethod
    def skip() -> MissedFiresPolicy:
        """Leave them out and go on with the next fire."""
        return MissedFiresPolicy("skip")

    @staticmethod
    def fire_once() -> MissedFiresPolicy:
        """One fire stands for all of them."""
        return MissedFiresPolicy("fire-once")

    @staticmethod
    def fire_all(max_catchup: int) -> MissedFiresPolicy:
        """Fire for each of them, for the latest `max_catchup` (and 10 000) when there are more."""
        return MissedFiresPolicy("fire-all", _catchups(max_catchup))

    @staticmethod
    def of(value: MissedFiresPolicy | Mapping[str, Any] | None) -> MissedFiresPolicy:
        """The policy itself, the one its dict form means, or `skip` for None.

        >>> MissedFiresPolicy.of({"kind": "fire-once"}) == MissedFiresPolicy.fire_once()
        True
        """
        if value is None:
            return MissedFiresPolicy.skip()
        if isinstance(value, MissedFiresPolicy):
            return value
        form = _mapping("missed_fires", value, "MissedFiresPolicy.skip(), .fire_once() or .fire_all(n)")
        kind = form.get("kind")
        if kind in {"skip", "fire-once"}:
            return MissedFiresPolicy(str(kind))
        if kind == "fire-all":
            return MissedFiresPolicy.fire_all(_entry("missed_fires", form, "max_catchup"))
        raise _unknown_policy(kind)

    def to_dict(self) -> dict[str, Any]:
        """The dict form that `of` reads."""
        if self.kind in {"skip", "fire-once"}:
            return {"kind": self.kind}
        if self.kind == "fire-all":
            return {"kind": "fire-all", "max_catchup": _catchups(self.max_catchup)}
        raise _unknown_policy(self.kind)

    def to_wire(self) -> MissedFires:
        """The policy as a repeat spec holds it."""
        if self.kind == "skip":
            return "Skip"
        if self.kind == "fire-once":
            return "FireOnce"
        if self.kind == "fire-all":
            return FireAll(_catchups(self.max_catchup))
        raise _unknown_policy(self.kind)

    @staticmethod
    def from_wire(missed: MissedFires) -> MissedFiresPolicy:
        if isinstance(missed, FireAll):
            return MissedFiresPolicy("fire-all", missed.max_catchup)
        return MissedFiresPolicy.skip() if missed == "Skip" else MissedFiresPolicy.fire_once()


@dataclass(frozen=True, slots=True)
class RepeatableMeta:
    """One schedule as it is listed: all but its data. `missed_fires` is None where missed fires are skipped.

    >>> spec = RepeatSpec("ping::every:5000", "ping", EveryPattern(5000), b"\\xc0")
    >>> RepeatableMeta.of(spec, next_fire_ms=1_800_000_000_000).pattern.interval_ms
    5000
    """

    key: str
    job_name: str
    pattern: RepeatPattern
    next_fire_ms: int
    limit: int | None = None
    start_after_ms: int | None = None
    end_before_ms: int | None = None
    missed_fires: MissedFiresPolicy | None = None

    @staticmethod
    def of(spec: RepeatSpec, next_fire_ms: int) -> RepeatableMeta:
        return RepeatableMeta(
            spec.key,
            spec.job_name,
            RepeatPattern.from_wire(spec.pattern),
            next_fire_ms,
            spec.limit,
            spec.start_after_ms,
            spec.end_before_ms,
            None if spec.missed_fires == "Skip" else MissedFiresPolicy.from_wire(spec.missed_fires),
        )


def _mapping(argument: str, value: object, expected: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise WrongType(argument=argument, value=value, expected=f"{expected} or its dict")
    return value  # pyright: ignore[reportUnknownVariableType] - the keys are looked up one by one


def _entry(argument: str, form: Mapping[str, Any], key: str) -> Any:
    if key not in form:
        raise BadArgument(argument=argument, value=dict(form), reason=f"no {key!r}", remedy=f"Add {key!r} to it.")
    return form[key]


def _json_whole(value: Any) -> Any:
    """A dict that came from JSON may say 5000.0; anything else is judged when the pattern is used."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(argument: str, value: object) -> str:
    if not isinstance(value, str):
        raise WrongType(argument=argument, value=value, expected="str")
    return value


def _interval(value: object) -> int:
    # Three centuries at most: the sum with any clock still fits the 53 bits of a sorted set's score.
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10**13:
        raise BadInterval(value=value)
    return value


def _catchups(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(argument="max_catchup", value=value, expected="int")
    if not 1 <= value <= _MOST_CATCHUPS:
        remedy = "Pass a number from 1 to 4294967295, or use MissedFiresPolicy.skip()."
        raise BadArgument(argument="max_catchup", value=value, reason="out of range", remedy=remedy)
    return value


def _unknown_policy(kind: object) -> BadArgument:
    remedy = "Write 'skip', 'fire-once' or 'fire-all'."
    return BadArgument(argument="missed_fires kind", value=kind, reason="unknown", remedy=remedy)
