"""The table of waits before a retry."""

import math

import pytest

from relevo.wire.retry import Backoff, RetryDefaults

CALM = RetryDefaults(jitter_ms=0)


@pytest.mark.parametrize(
    ("retry", "wait"), [(1, 100), (2, 200), (3, 400), (9, 25_600), (10, 30_000), (25, 30_000), (5000, 30_000)]
)
def test_the_defaults_double_from_a_tenth_of_a_second_to_thirty(retry: int, wait: int) -> None:
    assert CALM.wait_ms(retry) == wait


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff("fixed", 250), [250, 250, 250]),
        (Backoff("fixed", 250, multiplier=3.0), [250, 250, 250]),
        (Backoff("fixed", 60_000), [30_000, 30_000, 30_000]),
        (Backoff("fixed", 60_000, max_delay_ms=90_000), [60_000, 60_000, 60_000]),
        (Backoff("exponential", 100), [100, 200, 400]),
        (Backoff("exponential", 100, max_delay_ms=150), [100, 150, 150]),
        (Backoff("exponential", 100, multiplier=1.5), [100, 150, 225]),
        (Backoff("exponential", 100, multiplier=0.0), [100, 0, 0]),
        (Backoff("exponential", 0), [0, 0, 0]),
        (Backoff("linear", 100), [100, 200, 400]),
        (Backoff("exponential", 3, multiplier=1.5), [3, 4, 6]),
    ],
    ids=str,
)
def test_a_jobs_own_backoff_falls_back_to_the_defaults(backoff: Backoff, waits: list[int]) -> None:
    assert [backoff.wait_ms(retry, CALM) for retry in (1, 2, 3)] == waits


def test_the_caps_of_others_are_taken_from_the_defaults() -> None:
    assert Backoff("exponential", 100).wait_ms(9, RetryDefaults(max_ms=700, jitter_ms=0)) == 700


def test_jitter_comes_on_top_and_stays_below_its_bound() -> None:
    waits = {Backoff("fixed", 100, jitter_ms=10).wait_ms(1, CALM) for _ in range(2000)}
    assert min(waits) >= 100
    assert max(waits) <= 109
    assert len(waits) > 1


def test_a_jitter_of_zero_overrides_the_default_one() -> None:
    assert {Backoff("fixed", 100, jitter_ms=0).wait_ms(1, RetryDefaults()) for _ in range(100)} == {100}


@pytest.mark.parametrize("multiplier", [math.nan, math.inf, -math.inf, -2.0, 1e308])
def test_a_multiplier_from_a_strange_envelope_gives_a_wait_within_the_cap(multiplier: float) -> None:
    for retry in (1, 2, 3, 1000):
        assert 0 <= Backoff("exponential", 100, multiplier=multiplier).wait_ms(retry, CALM) <= 30_000
