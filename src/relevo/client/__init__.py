"""Work queues from Python: `Client` and `AsyncClient`, typed, with retries, and a consumer that keeps its claims alive.

from relevo.client import AsyncClient

async with AsyncClient("http://127.0.0.1:6391", key="rlv_…") as client:
    await client.publish("billing", "invoices", {"order": 17}, idempotency_key="order-17")
    await client.consume("billing", "invoices", handle, concurrency=10)
"""

from relevo.client.async_client import AsyncClient
from relevo.client.consumer import Consumer, Fail, Release
from relevo.client.sync_client import Client
from relevo.client.types import (
    Agent,
    ApiKey,
    AuditEntry,
    BatchOutcome,
    Claimed,
    DeadLetter,
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
    UsageRow,
)

__all__ = [
    "Agent",
    "ApiKey",
    "AsyncClient",
    "AuditEntry",
    "BatchOutcome",
    "Claimed",
    "Client",
    "Consumer",
    "DeadLetter",
    "Fail",
    "Message",
    "NewKey",
    "Page",
    "Published",
    "Queue",
    "Refusal",
    "Release",
    "Replay",
    "Scope",
    "Settled",
    "Step",
    "Subscription",
    "UsageRow",
]
