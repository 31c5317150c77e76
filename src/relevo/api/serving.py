"""What a served application has, made once and handed to every route: the framework passes on one thing, and this is it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from fastapi import Request

from relevo.agents.agents import Agents
from relevo.api.metrics import ApiMetrics
from relevo.api.settings import ApiSettings
from relevo.work.reading.event_feed import EventFeed
from relevo.work.work_queues import WorkQueues


@dataclass(frozen=True, slots=True)
class Serving:
    """One application's parts."""

    work_queues: WorkQueues
    agents: Agents
    settings: ApiSettings
    has_console: bool = False
    metrics: ApiMetrics = field(default_factory=ApiMetrics)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process is about to end: whoever waits for something is answered."""
    feeds: set[EventFeed] = field(default_factory=set[EventFeed])
    """Of those who follow events now."""
    pages: dict[str, str] = field(default_factory=dict[str, str])
    """Made once: what they tell does not change while the process lives."""


def serving_of(request: Request) -> Serving:
    return request.app.state.serving
