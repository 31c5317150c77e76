"""Settling claims: complete, fail, release, extend; one or many. The token of the claim is the right to do so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from relevo.work.caller import Caller
from relevo.work.message import Settled

if TYPE_CHECKING:
    from relevo.work.office import Office

Verdict = Literal["complete", "fail", "release", "extend"]


class SettleItem(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One message to settle. `result` goes with complete, `reason` (and `dead`: no more tries) with fail, `seconds` with
    extend (none: the queue's visibility timeout)."""

    id: str
    claim_token: str
    result: msgspec.Raw | None = None
    reason: str | None = None
    dead: bool = False
    seconds: float | None = None
    subscription: str | None = None


class Settling:
    """The settles of an office."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def settle(
        self, caller: Caller, scope: str, verdict: Verdict, items: Sequence[SettleItem], *, queue: str | None = None
    ) -> list[Settled]:
        """Settles; one outcome for each item, in their order: the message's state afterwards, or the `refusal` (`CLAIM_LOST`,
        `NOT_FOUND`, `INVALID_INPUT`) that says why nothing changed. With `queue` a message of another queue is not found.

        The same verdict with the same token once more is answered as done (the first answer may have been lost). Raises what
        concerns the call as a whole: `NotFound` (scope, queue), `PermissionDenied`, `StoreUnavailable`.
        """
        raise NotImplementedError
