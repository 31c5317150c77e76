"""Claiming messages: the next of a queue in its order, into one worker's hands, for a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from relevo.work.caller import Caller
from relevo.work.message import ClaimedMessage

if TYPE_CHECKING:
    from relevo.work.office import Office


class Claims:
    """The claims of an office."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def claim(
        self,
        caller: Caller,
        scope: str,
        queue: str,
        *,
        batch_size: int = 1,
        wait_s: float = 0.0,
        consumer: str | None = None,
        labels: Mapping[str, str] | None = None,
        subscription: str | None = None,
    ) -> list[ClaimedMessage]:
        """Up to `batch_size` messages (at most 1000) in the queue's order, all with one token. With `wait_s` (at most 60) waits
        that long for the first one. `subscription` is needed for a broadcast queue and refused for any other.

        Raises `NotFound`, `PermissionDenied`, `ScopePaused`, `QueuePaused`, `QueueArchived`, `WrongConsumerMode`,
        `InvalidInput`, `StoreUnavailable`. A draining queue is claimed from until it is empty.
        """
        raise NotImplementedError
