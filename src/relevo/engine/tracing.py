"""OpenTelemetry spans from the producer to the handler. The context travels in the job's notes: the envelope has no room.

Only `opentelemetry-api` is used, and only imported when there is something to trace: without it, or without an SDK, nothing
is recorded and nothing is carried. See docs/how-to/observe.md.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from relevo.engine.handlers import Handler
from relevo.engine.job import Job
from relevo.engine.parcel import Parcel
from relevo.errors import DependencyMissing, RateLimited
from relevo.wire.notes import Notes

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

SYSTEM = "relevo"


class ProducerSpans:
    """The spans of one queue's adds.

    `tracing` True makes a span for every add; None only where one is being recorded already, since a job that carries its
    context costs a script call more; False never.
    """

    def __init__(self, queue: str, tracing: bool | None) -> None:
        if tracing:
            _require()
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

        attributes: dict[str, Any] = _attributes(self._queue, "send")
        if job is not None:
            attributes["relevo.job.name"] = job.name
        else:
            attributes["messaging.batch.message_count"] = count
        kind = trace.SpanKind.PRODUCER
        with _tracer().start_as_current_span(f"send {self._queue}", kind=kind, attributes=attributes) as span:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            yield carrier or None  # empty without an SDK: the jobs stay plain ones
            if job is not None:
                span.set_attribute("messaging.message.id", job.id)  # known only now: a dedup key may decide it


class HandlerSpans:
    """The spans of one worker's runs. `tracing` True: of all; None: of jobs that carry a context; False: of none."""

    def __init__(self, queue: str, group: str, consumer: str, tracing: bool | None) -> None:
        if tracing:
            _require()
        self.always = tracing is True
        self._never = tracing is False
        self._queue = queue
        self._attributes = {
            **_attributes(queue, "process"),
            "messaging.consumer.group.name": group,
            "messaging.client.id": consumer,
        }

    def wanted(self, notes: Notes) -> bool:
        return self.always or (notes.trace is not None and not self._never)

    async def run(self, handler: Handler, job: Job, notes: Notes | None) -> Any:
        """Runs the handler in a span that is the producer's child; a retry is linked to where it came from as well."""
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            return await handler(job)
        carried = None if notes is None else notes.trace
        context = propagate.extract(carried or {})
        origin = trace.get_current_span(context).get_span_context()
        links = [trace.Link(origin, {"relevo.link": "retry of"})] if job.attempt and origin.is_valid else []
        attributes: dict[str, Any] = {
            **self._attributes,
            "messaging.message.id": job.id,
            "relevo.job.name": job.name,
            "relevo.job.attempt": job.attempt + 1,
        }
        with _tracer().start_as_current_span(
            f"process {self._queue}", context=context, kind=trace.SpanKind.CONSUMER, attributes=attributes, links=links,
            record_exception=False, set_status_on_exception=False,
        ) as span:  # fmt: skip
            try:
                return await handler(job)
            except RateLimited as limited:
                span.add_event("rate limited", {"relevo.wait_ms": limited.wait_ms})  # told to come back: no failure
                raise
            except Exception as error:
                _failed(span, error)
                raise


def without_span() -> None:
    """Lets the task that calls this begin without a current span; see `Batch`, whose calls belong to no one job."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import context

        context.attach(context.Context())


def _tracer() -> Tracer:
    from opentelemetry import trace

    return trace.get_tracer(SYSTEM)


def _attributes(queue: str, operation: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def carrying(parcel: Parcel, carrier: dict[str, str] | None) -> Parcel:
    """The parcel with its context in the notes."""
    if carrier is None:
        return parcel
    return parcel._replace(notes=msgspec.structs.replace(parcel.notes or Notes(), trace=carrier))


def _failed(span: Span, error: Exception) -> None:
    from opentelemetry.trace import Status, StatusCode

    kind = type(error)
    span.set_attribute("error.type", kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind))
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _require() -> None:
    try:
        import_module("opentelemetry.trace")
    except ImportError as error:
        raise DependencyMissing(what="tracing=True", package="opentelemetry-api", extra="relevo[otel]") from error
