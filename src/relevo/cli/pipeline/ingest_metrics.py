"""`relevo pipeline ingest --follow --metrics-port`: how far the ingest is, for Prometheus."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relevo.errors import CannotListen, DependencyMissing

if TYPE_CHECKING:
    from relevo.pipeline.commands.ingest import Batch

HOST = "127.0.0.1"


class IngestMetrics:
    """The numbers of one ingest, in a registry of their own."""

    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge
        except ImportError as error:
            raise DependencyMissing(what="Metrics", package="prometheus-client", extra="relevo[metrics]") from error
        self.registry = CollectorRegistry()
        self._behind = Gauge(
            "relevo_ingest_rows_behind", "Events that wait to be taken into the lake.", registry=self.registry
        )
        self._events = Counter("relevo_ingest_events", "Events taken into the lake.", registry=self.registry)
        self._seconds = Gauge(
            "relevo_ingest_batch_seconds", "How long the last batch took to write.", registry=self.registry
        )

    def behind(self, rows: int) -> None:
        self._behind.set(rows)

    def taken(self, batch: Batch) -> None:
        self._events.inc(batch.rows)
        self._seconds.set(batch.seconds)


@contextmanager
def served(port: int | None) -> Generator[IngestMetrics | None]:
    """Answers Prometheus on this machine's own address while the ingest runs; nothing without a port."""
    if port is None:
        yield None
        return
    metrics = IngestMetrics()
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, HOST, metrics.registry)
    except OSError as error:
        raise CannotListen(host=HOST, port=port, reason=error.strerror or str(error)) from error
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
