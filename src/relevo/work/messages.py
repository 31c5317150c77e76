"""Publishing messages, and what can be done to one that nobody has claimed: cancelling it, changing its priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relevo.work.caller import Caller
from relevo.work.message import NewMessage, Published, Refusal, Tier

if TYPE_CHECKING:
    from relevo.work.office import Office


class Messages:
    """The messages of an office."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def publish(
        self, caller: Caller, scope: str, queue: str, messages: Sequence[NewMessage]
    ) -> list[Published | Refusal]:
        """Publishes; when it returns, what it calls published is on disk. One outcome for each message, in their order.

        Concurrent calls share a transaction. Raises what concerns the call as a whole (`NotFound`, `PermissionDenied`,
        `ScopePaused`, `QueuePaused`, `QueueDraining`, `QueueArchived`, `StoreUnavailable`); what concerns one message is its
        `Refusal` (`IDEMPOTENCY_CONFLICT`, `QUEUE_FULL`, `INVALID_INPUT`).
        """
        raise NotImplementedError

    async def cancel(self, caller: Caller, scope: str, message_id: str, *, reason: str | None = None) -> str:
        """Cancels a message that nobody works on (pending, delayed, in_review or dead) and returns its new state. Cancelling a
        cancelled one is fine; else `WrongState`, or `NotFound`."""
        raise NotImplementedError

    async def reprioritise(
        self, caller: Caller, scope: str, message_id: str, *, tier: Tier | None = None, score: int | None = None
    ) -> None:
        """Gives a pending or delayed message another priority, and its new place in the order. `WrongState`, `NotFound`."""
        raise NotImplementedError
