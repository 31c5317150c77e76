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
from relevo.client.sync_client import Client
from relevo.contract.agents import Agent
from relevo.contract.audit import AuditEntry, Trace, TraceStep, UsageRow
from relevo.contract.chunks import Chunk, Chunks
from relevo.contract.claims import Claimed, Settled
from relevo.contract.dead_letters import DeadLetter, Replay
from relevo.contract.erasures import Erasure
from relevo.contract.events import Event
from relevo.contract.failures import Failure
from relevo.contract.grants import Grant
from relevo.contract.keys import ApiKey, KeyLimits, NewKey
from relevo.contract.messages import BatchOutcome, Message, Published, Refusal, Step
from relevo.contract.pages import Page
from relevo.contract.queues import Queue
from relevo.contract.reviews import Note, Pattern, Review, StreamWatch, Vote
from relevo.contract.rules import Rule, StoredRule, Tried
from relevo.contract.schemas import Binding, Compatibility, Schema
from relevo.contract.scopes import Scope, Trust
from relevo.contract.subscriptions import Subscription
from relevo.contract.webhooks import Delivery, NewSecret, Webhook

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
