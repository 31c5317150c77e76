"""The rate of a queue beside a plain model, on a clock of our own: no window is ever overfull, and the rate is used."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis import Redis

from relevo.broker.capabilities import Capabilities
from relevo.broker.scripts import Script
from relevo.engine.consuming.queue_limiter import ACQUIRE, STARTED
from tests.servers.server import Server

TO_START_MS = 50
BEGIN_MS = 1_800_000_000_000

STEPS = st.lists(
    st.tuples(
        st.integers(0, 60),  # ms until somebody asks
        st.integers(1, 12),  # for so many
        st.integers(0, TO_START_MS),  # ms until they have started
        st.sampled_from(["all", "all", "some", "died"]),
    ),
    min_size=5,
    max_size=60,
)


class Limiter:
    """acquire.lua and started.lua, told what time it is."""

    def __init__(self, redis: Any) -> None:
        self.redis = redis
        redis.flushall()
        self.now = BEGIN_MS
        self._acquire = self.redis.register_script(_on_our_clock(ACQUIRE))
        self._started = self.redis.register_script(_on_our_clock(STARTED))

    def acquire(self, wanted: int, rate: int, per_ms: int, burst: int = 0) -> tuple[int, int, bytes]:
        self._tell_time()
        limits = [rate, per_ms, burst, TO_START_MS, 0, 0]
        granted, wait, told = self._acquire(
            ["limiter", "places", "starts"], [*limits, *(f"{at}-0" for at in range(wanted))]
        )
        return granted, wait, told

    def started(self, told: bytes, count: int) -> None:
        self._tell_time()
        self._started(["starts"], [told, count])

    def total(self) -> int:
        return int(self.redis.zscore("starts", "total") or 0)

    def summed(self) -> int:
        members: list[bytes] = self.redis.zrange("starts", 0, -1)
        return sum(int(each.rpartition(b":")[2]) for each in members if each != b"total")

    def _tell_time(self) -> None:
        self.redis.rpush("clock", self.now // 1000, self.now % 1000 * 1000)
        self.redis.ltrim("clock", -2, -1)


def _on_our_clock(of: Script) -> str:
    """The script on our clock, and without the lifetimes of its keys, which go by the server's."""
    text = of.text(Capabilities(ack_delete=False, read_claim=False))
    assert "redis.call('TIME')" in text
    lines = [line for line in text.splitlines() if "'PEXPIRE'" not in line]
    return "\n".join(lines).replace("redis.call('TIME')", "redis.call('LRANGE', 'clock', 0, 1)")


@pytest.fixture
def redis(valkey: Server) -> Generator[Any]:
    """As Any: redis-py's types leave too much open."""
    made: Any = Redis
    with made.from_url(valkey.url) as client:
        yield client
        client.flushall()


def most_within(starts: Sequence[int], window: int) -> int:
    return max((sum(first <= each < first + window for each in starts) for first in starts), default=0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rate=st.integers(1, 8), per_ms=st.integers(5, 120), steps=STEPS)
@example(rate=5, per_ms=100, steps=[(0, 5, 0, "all"), (20, 5, 0, "all"), (79, 5, 0, "all"), (1, 5, 0, "all")])
def test_no_window_holds_more_starts_than_the_rate(
    redis: Any, rate: int, per_ms: int, steps: list[tuple[int, int, int, str]]
) -> None:
    limiter = Limiter(redis)
    starts: list[int] = []
    for pause, wanted, lag, how in steps:
        limiter.now += pause
        granted, wait, told = limiter.acquire(wanted, rate, per_ms)
        assert (granted > 0) != (wait > 0)
        if not granted:
            continue
        used = granted // 2 if how == "some" else granted
        limiter.now += lag
        starts += [limiter.now] * used
        if how != "died":  # whoever died may have started all of them, and has told nobody
            limiter.started(told, used)
        assert limiter.total() == limiter.summed() <= rate
    assert most_within(starts, per_ms) <= rate


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rate=st.integers(1, 40), per_ms=st.integers(50, 400), at_once=st.integers(1, 20))
def test_who_always_has_work_reaches_the_whole_rate(redis: Any, rate: int, per_ms: int, at_once: int) -> None:
    limiter, started, windows = Limiter(redis), 0, 12
    while limiter.now < BEGIN_MS + windows * per_ms:
        granted, wait, told = limiter.acquire(at_once, rate, per_ms)
        if granted:
            started += granted
            limiter.started(told, granted)
        else:
            limiter.now += wait
    # A start counts up to a millisecond longer than it should, so a window takes that much more.
    assert rate * windows * per_ms // (per_ms + 1) - rate <= started <= rate * (windows + 1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rate=st.integers(1, 8), per_ms=st.integers(20, 120), burst=st.integers(1, 20), steps=STEPS)
def test_a_burst_is_a_bucket_that_fills_at_the_rate(
    redis: Any, rate: int, per_ms: int, burst: int, steps: list[tuple[int, int, int, str]]
) -> None:
    limiter = Limiter(redis)
    tokens, since = float(burst), BEGIN_MS
    for pause, wanted, _, _ in steps:
        limiter.now += pause
        tokens, since = min(burst, tokens + (limiter.now - since) * rate / per_ms), limiter.now
        granted, _, told = limiter.acquire(wanted, rate, per_ms, burst)
        assert (granted, told) == (min(wanted, int(tokens + 1e-6)), b"")
        tokens -= granted
