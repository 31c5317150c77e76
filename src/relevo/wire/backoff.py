"""Backoff as the caller writes it: `BackoffSpec`, a number of milliseconds, or a dict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relevo.arguments import factor
from relevo.errors import BadArgument, WrongType
from relevo.wire.retry import Backoff, RetryOverride


@dataclass(frozen=True)
class BackoffSpec:
    """How long a failed job waits before it is tried again.

    >>> BackoffSpec.fixed(250)
    BackoffSpec(kind='fixed', delay_ms=250, max_delay_ms=None, multiplier=None, jitter_ms=None)
    >>> BackoffSpec.exponential(100, max_ms=10_000).to_dict()
    {'kind': 'exponential', 'delay_ms': 100, 'max_delay_ms': 10000, 'multiplier': 2.0}
    """

    kind: str
    delay_ms: int
    max_delay_ms: int | None = None
    multiplier: float | None = None
    jitter_ms: int | None = None

    @staticmethod
    def fixed(delay_ms: int, jitter_ms: int | None = None) -> BackoffSpec:
        """The same wait each time."""
        return BackoffSpec("fixed", delay_ms, jitter_ms=jitter_ms)

    @staticmethod
    def exponential(
        initial_ms: int, *, multiplier: float = 2.0, max_ms: int | None = None, jitter_ms: int | None = None
    ) -> BackoffSpec:
        """A wait that grows with each failure, up to `max_ms`."""
        return BackoffSpec("exponential", initial_ms, max_ms, multiplier, jitter_ms)

    def to_dict(self) -> dict[str, Any]:
        values = {
            "kind": self.kind,
            "delay_ms": self.delay_ms,
            "max_delay_ms": self.max_delay_ms,
            "multiplier": self.multiplier,
            "jitter_ms": self.jitter_ms,
        }
        return {key: value for key, value in values.items() if value is not None}


BackoffLike = int | BackoffSpec | Mapping[str, Any]

_KINDS = ("fixed", "exponential")
_FIELDS = frozenset({"kind", "delay_ms", "max_delay_ms", "max_ms", "multiplier", "jitter_ms"})


def retry_override(attempts: int | None, backoff: BackoffLike | None) -> RetryOverride | None:
    """The override for the envelope, or None when the caller asked for nothing."""
    if attempts is None and backoff is None:
        return None
    return RetryOverride(_attempts(attempts), None if backoff is None else _backoff(backoff))


def _attempts(attempts: int | None) -> int | None:
    if attempts is None:
        return None
    if isinstance(attempts, bool) or not isinstance(attempts, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise WrongType(argument="attempts", value=attempts, expected="int")
    if attempts == 0:
        remedy = "Pass 1 for a single run without retries."
        raise BadArgument(argument="attempts", value=0, reason="the job would never run", remedy=remedy)
    return _whole("attempts", attempts, below=2**32)


def _backoff(value: object) -> Backoff:
    if isinstance(value, bool):
        raise WrongType(argument="backoff", value=value, expected="milliseconds, BackoffSpec or dict")
    if isinstance(value, int):
        return Backoff("fixed", _whole("backoff", value))
    if isinstance(value, BackoffSpec):
        return _checked(value.kind, value.delay_ms, value.max_delay_ms, value.multiplier, value.jitter_ms)
    if isinstance(value, Mapping):
        given: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        unknown = sorted(set(given) - _FIELDS)
        if unknown or "kind" not in given or "delay_ms" not in given:
            reason = f"unknown {unknown}" if unknown else "no `kind` or no `delay_ms`"
            remedy = "Use kind, delay_ms, max_delay_ms, multiplier, jitter_ms."
            raise BadArgument(argument="backoff", value=dict(given), reason=reason, remedy=remedy)
        cap = given.get("max_delay_ms", given.get("max_ms"))
        return _checked(given["kind"], given["delay_ms"], cap, given.get("multiplier"), given.get("jitter_ms"))
    raise WrongType(argument="backoff", value=value, expected="milliseconds, BackoffSpec or dict")


def _checked(kind: object, delay: object, cap: object, multiplier: object, jitter: object) -> Backoff:
    if kind not in _KINDS:
        raise BadArgument(argument="backoff kind", value=kind, reason="unknown", remedy=f"Use one of {_KINDS}.")
    return Backoff(
        str(kind),
        _whole("backoff delay_ms", delay),
        None if cap is None else _whole("backoff max_delay_ms", cap),
        None if multiplier is None else factor("backoff multiplier", multiplier),
        None if jitter is None else _whole("backoff jitter_ms", jitter),
    )


def _whole(argument: str, value: object, *, below: int = 2**53) -> int:
    # 2^53: Redis keeps the time a job is due as a double. Attempts are 32 bits on the wire.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        reason = f"not a whole number from 0 to {below - 1}"
        raise BadArgument(argument=argument, value=value, reason=reason, remedy="Pass an int.")
    return value
