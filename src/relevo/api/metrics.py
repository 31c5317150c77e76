"""Numbers for Prometheus: requests, messages in and out, long polls, the depth of every queue, the order index."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from sqlalchemy import select

from relevo.work.store.counters import COUNTED_STATES
from relevo.work.store.views import queues
from relevo.work.work_queues import WorkQueues

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ApiMetrics:
    """The instruments of one process. With several `serve` processes every one of them tells the sum of all."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self.requests = Counter(
            "relevo_http_requests", "Requests answered.", ("route", "method", "status"), registry=registry
        )
        self.seconds = Histogram(
            "relevo_http_request_seconds",
            "Time to answer, long polls included.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.published = Counter(
            "relevo_work_published", "Messages published, duplicates not counted.", registry=registry
        )
        self.claimed = Counter("relevo_work_claimed", "Messages handed to workers.", registry=registry)
        self.settled = Counter("relevo_work_settled", "Claims settled.", ("verdict",), registry=registry)
        self.refused = Counter("relevo_work_refused", "Publishes and settles refused.", ("code",), registry=registry)
        self.long_polls = Gauge(
            "relevo_work_long_polls",
            "Claims that wait for a message now.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._children: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        known = self._children.get((route, method, status))
        if known is None:
            known = (self.requests.labels(route, method, str(status)), self.seconds.labels(route))
            self._children[route, method, status] = known
        known[0].inc()
        known[1].observe(seconds)

    async def text(self, work_queues: WorkQueues) -> bytes:
        """Everything as Prometheus reads it; depths are asked of the database at this moment."""
        registry = CollectorRegistry()
        registry.register(_Now(await _depths(work_queues), await _index(work_queues), await _search(work_queues)))
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            shared = CollectorRegistry()
            MultiProcessCollector(shared)
            return generate_latest(shared) + generate_latest(registry)
        return generate_latest(self._registry) + generate_latest(registry)


class _Now:
    """Families made for one look."""

    def __init__(self, *families: GaugeMetricFamily) -> None:
        self._families = families

    def collect(self) -> list[GaugeMetricFamily]:
        return list(self._families)


async def _depths(work_queues: WorkQueues) -> GaugeMetricFamily:
    labels = ("tenant", "scope", "queue", "state")
    family = GaugeMetricFamily("relevo_work_depth", "Messages of a queue by state.", labels=labels)
    counts = [queues.c[f"{state}_count"] for state in COUNTED_STATES]
    query = select(queues.c.tenant, queues.c.scope, queues.c.queue, *counts)
    async with work_queues.database.connect() as connection:
        for row in (await connection.execute(query)).all():
            for state, count in zip(COUNTED_STATES, row[3:], strict=True):
                family.add_metric((*row[:3], state), int(count))
    return family


async def _index(work_queues: WorkQueues) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "relevo_work_index", "Whether the order index is in use: 1, or 0 while claims are ordered by SQL alone."
    )
    family.add_metric((), 1.0 if work_queues.ready_index.in_use else 0.0)
    return family


async def _search(work_queues: WorkQueues) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "relevo_work_search_behind_seconds",
        "For how long messages were published that the search table does not know yet.",
    )
    family.add_metric((), await work_queues.search.behind_s())
    return family
