"""Work queues from Python: `Client` and `AsyncClient`, typed, with retries, and a consumer that keeps its claims alive.

from relevo.client import AsyncClient

async with AsyncClient("http://127.0.0.1:6391", key="rlv_…") as client:
    await client.publish("billing", "invoices", {"order": 17}, idempotency_key="order-17")
    await client.consume("billing", "invoices", handle, concurrency=10)
"""

from relevo.errors import DependencyMissing

try:
    import httpx  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    raise DependencyMissing(what="relevo.client", package="httpx", extra="relevo[client]") from error

from relevo.client.async_client import AsyncClient
from relevo.client.consumer import Consumer, Fail, Release
from relevo.client.people_types import (
    Binding,
    Chunk,
    Chunks,
    Compatibility,
    Delivery,
    Erasure,
    Event,
    Grant,
    KeyLimits,
    NewSecret,
    Note,
    Pattern,
    Review,
    Rule,
    Schema,
    StoredRule,
    StreamWatch,
    Tried,
    Trust,
    Vote,
    Webhook,
)
from relevo.client.sync_client import Client
from relevo.client.types import (
    Agent,
    ApiKey,
    AuditEntry,
    BatchOutcome,
    Claimed,
    DeadLetter,
    Failure,
    Message,
    NewKey,
    Page,
    Published,
    Queue,
    Refusal,
    Replay,
    Scope,
    Settled,
    Step,
    Subscription,
    Trace,
    TraceStep,
    UsageRow,
)

__all__ = [
    "Agent",
    "ApiKey",
    "AsyncClient",
    "AuditEntry",
    "BatchOutcome",
    "Binding",
    "Chunk",
    "Chunks",
    "Claimed",
    "Client",
    "Compatibility",
    "Consumer",
    "DeadLetter",
    "Delivery",
    "Erasure",
    "Event",
    "Fail",
    "Failure",
    "Grant",
    "KeyLimits",
    "Message",
    "NewKey",
    "NewSecret",
    "Note",
    "Page",
    "Pattern",
    "Published",
    "Queue",
    "Refusal",
    "Release",
    "Replay",
    "Review",
    "Rule",
    "Schema",
    "Scope",
    "Settled",
    "Step",
    "StoredRule",
    "StreamWatch",
    "Subscription",
    "Trace",
    "TraceStep",
    "Tried",
    "Trust",
    "UsageRow",
    "Vote",
    "Webhook",
]
