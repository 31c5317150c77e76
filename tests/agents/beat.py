"""A downtime of the agents, as the server sees it: their slots lie in the past, and somebody comes back."""

import time
from typing import Any, cast

import redis

from tests.pace import limit

SCHEDULES = "*work-agents-*:repeat"
_LONG_AGO_MS = 600_000


def turn_back_the_beat(url: str, *, wait: bool = True) -> None:
    """Makes every agent ten minutes late, once all have their schedules; and waits until somebody has caught up."""
    with cast("Any", redis.Redis).from_url(url) as server:
        deadline = time.monotonic() + limit(40)
        while len(scores := _scores(server)) < 14:
            assert time.monotonic() < deadline, f"only {len(scores)} agents have a schedule"
        for (key, member), score in scores.items():
            server.zadd(key, {member: score - _LONG_AGO_MS}, xx=True)
        while wait and min(_scores(server).values()) < time.time() * 1000 - _LONG_AGO_MS / 2:
            assert time.monotonic() < deadline, "nobody has caught up"


def _scores(server: Any) -> dict[tuple[bytes, bytes], float]:
    return {
        (key, member): score
        for key in server.scan_iter(SCHEDULES)
        for member, score in server.zrange(key, 0, -1, withscores=True)
    }
