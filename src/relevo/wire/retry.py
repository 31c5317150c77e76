"""How often a job is tried again, and when: the per-job override as it travels in the envelope, and its arithmetic."""

from __future__ import annotations

import random
from dataclasses import dataclass

import msgspec

from relevo.arguments import factor
from relevo.options import check, option

RETRIES = "Retries of jobs without a backoff of their own"


class Backoff(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, gc=False):
    """`[kind, delay_ms, max_delay_ms, multiplier, jitter_ms]`: five slots, always all of them.

    >>> Backoff("fixed", 250).wait_ms(3, RetryDefaults(jitter_ms=0))
    250
    >>> Backoff("exponential", 100, max_delay_ms=300, jitter_ms=0).wait_ms(3, RetryDefaults())
    300
    """

    kind: str
    delay_ms: int
    max_delay_ms: int | None = None
    multiplier: float | None = None
    jitter_ms: int | None = None

    def wait_ms(self, retry: int, defaults: RetryDefaults) -> int:
        """Milliseconds before retry number `retry` (the first is 1). An unknown kind counts as exponential."""
        multiplier = 1.0 if self.kind == "fixed" else _or(self.multiplier, defaults.multiplier)
        return _wait_ms(
            self.delay_ms,
            multiplier,
            retry,
            cap=_or(self.max_delay_ms, defaults.max_ms),
            jitter=_or(self.jitter_ms, defaults.jitter_ms),
        )


class RetryOverride(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, gc=False):
    """`[max_attempts, backoff]`, the fifth element of an envelope; both slots are always there."""

    max_attempts: int | None = None
    backoff: Backoff | None = None


@dataclass(frozen=True)
class RetryDefaults:
    """What a queue does with a failed job that brings no override of its own.

    >>> RetryDefaults(jitter_ms=0).wait_ms(4)
    800
    """

    initial_ms: int = option(100, "Milliseconds before the first retry.", topic=RETRIES, zero=True)
    max_ms: int = option(30_000, "The longest wait in milliseconds.", topic=RETRIES, zero=True)
    multiplier: float = option(2.0, "How much longer each further retry waits.", topic=RETRIES, check=factor)
    jitter_ms: int = option(100, "Up to so many random milliseconds are added.", topic=RETRIES, zero=True)

    def __post_init__(self) -> None:
        check(self)

    def wait_ms(self, retry: int) -> int:
        return _wait_ms(self.initial_ms, self.multiplier, retry, cap=self.max_ms, jitter=self.jitter_ms)


def _wait_ms(delay: float, multiplier: float, retry: int, *, cap: float, jitter: float) -> int:
    try:
        base = delay * multiplier ** max(retry - 1, 0)
    except OverflowError:  # 2.0 ** 1100: the cap is all that matters
        base = cap
    if not base >= 0:  # also NaN, which compares false with everything
        base = 0.0
    return int(min(base, cap)) + (int(random.random() * jitter) if jitter > 0 else 0)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
