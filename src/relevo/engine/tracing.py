"""What the spans of producers and of handlers share.

Only `opentelemetry-api` is used, and only imported when there is something to trace: without it, or without an SDK, nothing is
recorded and nothing is carried. See docs/how-to/observe.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from relevo.errors import DependencyMissing

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


SYSTEM = "relevo"


def tracer() -> Tracer:
    from opentelemetry import trace

    return trace.get_tracer(SYSTEM)


def span_attributes(queue: str, operation: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def require_opentelemetry() -> None:
    try:
        import_module("opentelemetry.trace")
    except ImportError as error:
        raise DependencyMissing(what="tracing=True", package="opentelemetry-api", extra="relevo[otel]") from error
