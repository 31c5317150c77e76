"""OpenTelemetry spans from the producer to the handler. The context travels in the job's notes: the envelope has no room.

Only `opentelemetry-api` is used, and only imported when there is something to trace: without it, or without an SDK, nothing
is recorded and nothing is carried. See docs/how-to/observe.md.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from relevo.engine.job.job import Job
from relevo.engine.producing.job_encoder import EncodedJob
from relevo.engine.tracing import require_opentelemetry, span_attributes, tracer
from relevo.wire.notes import Notes


class ProducerSpans:
    """The spans of one queue's adds.

    `tracing` True makes a span for every add; None only where one is being recorded already, since a job that carries its
    context costs a script call more; False never.
    """

    def __init__(self, queue: str, tracing: bool | None) -> None:
        if tracing:
            require_opentelemetry()
        self._queue = queue
        self._tracing = tracing

    def wanted(self) -> bool:
        if self._tracing is not None:
            return self._tracing
        contexts = sys.modules.get("opentelemetry.context")  # not imported by anyone: nobody records
        if contexts is None or not contexts.get_current():  # the usual case, and the cheaper question
            return False
        spans = sys.modules.get("opentelemetry.trace")
        return spans is not None and spans.get_current_span().is_recording()

    def wanted_for_many(self) -> bool:
        """Many jobs at once travel together or not at all, unless each has notes: that is for the caller to choose."""
        return self._tracing is True

    @contextmanager
    def sending(self, job: Job | None, count: int = 1) -> Generator[dict[str, str] | None]:
        """The span of one add (of `job`, or of `count` jobs), as what the jobs have to carry; None for nothing."""
        from opentelemetry import propagate, trace

        attributes: dict[str, Any] = span_attributes(self._queue, "send")
        if job is not None:
            attributes["relevo.job.name"] = job.name
        else:
            attributes["messaging.batch.message_count"] = count
        kind = trace.SpanKind.PRODUCER
        with tracer().start_as_current_span(f"send {self._queue}", kind=kind, attributes=attributes) as span:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            yield carrier or None  # empty without an SDK: the jobs stay plain ones
            if job is not None:
                span.set_attribute("messaging.message.id", job.id)  # known only now: a dedup key may decide it


def carrying(encoded: EncodedJob, carrier: dict[str, str] | None) -> EncodedJob:
    """The job with its context in the notes."""
    if carrier is None:
        return encoded
    return encoded._replace(notes=msgspec.structs.replace(encoded.notes or Notes(), trace=carrier))
