"""Backoff as callers write it."""

from typing import Any

import pytest

from relevo import BackoffSpec
from relevo.errors import BadArgument, WrongType
from relevo.wire.backoff import retry_override
from relevo.wire.retry import Backoff, RetryOverride


def test_asking_for_nothing_adds_nothing_to_the_envelope() -> None:
    assert retry_override(None, None) is None


@pytest.mark.parametrize(
    ("backoff", "stored"),
    [
        (250, Backoff("fixed", 250)),
        (0, Backoff("fixed", 0)),
        (BackoffSpec.fixed(250, jitter_ms=5), Backoff("fixed", 250, jitter_ms=5)),
        (BackoffSpec.exponential(100), Backoff("exponential", 100, None, 2.0)),
        (BackoffSpec.exponential(100, multiplier=3, max_ms=900), Backoff("exponential", 100, 900, 3.0)),
        ({"kind": "fixed", "delay_ms": 5}, Backoff("fixed", 5)),
        ({"kind": "exponential", "delay_ms": 5, "max_ms": 9}, Backoff("exponential", 5, 9)),
        ({"kind": "exponential", "delay_ms": 5, "max_delay_ms": 9}, Backoff("exponential", 5, 9)),
    ],
    ids=str,
)
def test_every_way_of_writing_it_is_understood(backoff: Any, stored: Backoff) -> None:
    assert retry_override(None, backoff) == RetryOverride(None, stored)


@pytest.mark.parametrize("spec", [BackoffSpec.fixed(5), BackoffSpec.exponential(5, max_ms=9, jitter_ms=1)], ids=str)
def test_a_spec_as_a_dict_means_the_same(spec: BackoffSpec) -> None:
    assert retry_override(None, spec.to_dict()) == retry_override(None, spec)


@pytest.mark.parametrize("attempts", [1, 2**32 - 1])
def test_attempts_are_whole_numbers_of_32_bits(attempts: int) -> None:
    assert retry_override(attempts, None) == RetryOverride(attempts)


@pytest.mark.parametrize(
    ("attempts", "backoff", "error"),
    [
        (-1, None, BadArgument),
        (2**32, None, BadArgument),
        (True, None, WrongType),
        ("3", None, WrongType),
        (None, -1, BadArgument),
        (None, 1.5, WrongType),
        (None, False, WrongType),
        (None, [], WrongType),
        (None, {}, BadArgument),
        (None, {"kind": "fixed"}, BadArgument),
        (None, {"kind": "fixed", "delay_ms": "5"}, BadArgument),
        (None, {"kind": "linear", "delay_ms": 5}, BadArgument),
        (None, {"kind": "fixed", "delay_ms": 5, "jitter": 1}, BadArgument),
        (None, {"kind": "fixed", "delay_ms": 5, "multiplier": float("nan")}, BadArgument),
        (None, {"kind": "fixed", "delay_ms": 5, "multiplier": True}, BadArgument),
        (None, {"kind": "fixed", "delay_ms": 5, "multiplier": -1}, BadArgument),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_and_named(attempts: Any, backoff: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="attempts" if backoff is None else "backoff"):
        retry_override(attempts, backoff)
