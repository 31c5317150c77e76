"""The spans of a worker's runs: children of the producer's span, whose context came in the job's notes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from relevo.engine.consuming.handlers import Handler
from relevo.engine.job.job import Job
from relevo.errors import RateLimited
from relevo.wire.notes import Notes

if TYPE_CHECKING:
    from opentelemetry.trace import Span

from relevo.engine.tracing import require_opentelemetry, span_attributes, tracer


class HandlerSpans:
    """The spans of one worker's runs. `tracing` True: of all; None: of jobs that carry a context; False: of none."""

    def __init__(self, queue: str, group: str, consumer: str, tracing: bool | None) -> None:
        if tracing:
            require_opentelemetry()
        self.always: bool = tracing is True
        self._never = tracing is False
        self._queue = queue
        self._attributes = {
            **span_attributes(queue, "process"),
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
        with tracer().start_as_current_span(
            f"process {self._queue}",
            context=context,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await handler(job)
            except RateLimited as limited:
                span.add_event("rate limited", {"relevo.wait_ms": limited.wait_ms})  # told to come back: no failure
                raise
            except Exception as error:
                _note_failure(span, error)
                raise


def without_span() -> None:
    """Lets the task that calls this begin without a current span; see `Batch`, whose calls belong to no one job."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import context

        context.attach(context.Context())


def _note_failure(span: Span, error: Exception) -> None:
    try:
        _failed(span, error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - an error that cannot say what it is: the run is judged by it all the same
        span.set_attribute("error.type", _full_name(type(error)))


def _failed(span: Span, error: Exception) -> None:
    from opentelemetry.trace import Status, StatusCode

    kind = type(error)
    span.set_attribute("error.type", kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind))
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
