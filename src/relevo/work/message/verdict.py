"""What a worker says of a message it claimed: complete, fail, release or extend, with the token that is its right to say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from relevo.contract.claims import Settled
from relevo.errors import InvalidInput
from relevo.work.message.failure import Failure
from relevo.work.message.lifecycle import Change
from relevo.work.message.retry import wait_before_retry
from relevo.work.message.transition import EXTEND, GIVE_UP, RELEASE, RETRY, RETRY_AT_ONCE, Transition
from relevo.work.queue_record import QueueSettings
from relevo.work.store.interface import LockedDelivery, LockedMessage, QueuePolicy

Verdict = Literal["complete", "fail", "release", "extend"]

LONGEST_CLAIM_S = 43_200.0
LONGEST_REASON = 10_000

LETTERS: Mapping[Verdict, str] = {"fail": "F", "release": "R"}
"""What stands in the place of a token's first letter after its verdict. Tokens are lower case: nobody is given this one."""


class SettleItem(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One message to settle. `result` goes with complete, `reason` and `error` (and `dead`: no more tries) with fail,
    `seconds` with extend (none: the queue's visibility timeout)."""

    id: str
    claim_token: str
    result: msgspec.Raw = msgspec.Raw()
    """Empty for none: msgspec reads no `Raw | None`."""
    reason: str | None = None
    error: Failure | None = None
    dead: bool = False
    seconds: float | None = None
    subscription: str | None = None

    @property
    def failure(self) -> Failure:
        """Why it failed, in parts; of a worker that gave a reason only, or nothing, what there is."""
        return self.error or Failure(message=self.reason or "failed")

    @property
    def told(self) -> str:
        """Why it failed, in one text."""
        return (self.reason or "failed") if self.error is None else self.error.told_with(self.reason)


def wrong_in(item: SettleItem) -> InvalidInput | None:
    """What cannot be in what a worker says, if anything."""
    if item.seconds is not None and not 0 < item.seconds <= LONGEST_CLAIM_S:
        reason = f"{item.seconds} is not between 0 and {LONGEST_CLAIM_S:.0f}"
        return InvalidInput(where="extend_s", reason=reason)
    if item.reason is not None and (len(item.reason) > LONGEST_REASON or "\0" in item.reason):
        return InvalidInput(where="reason", reason=f"pass up to {LONGEST_REASON} characters, none of them NUL")
    return None


class Settling(NamedTuple):
    """What a verdict does to a claimed row, and what the worker is answered."""

    transition: Transition
    change: Change
    answer: Settled


def settling_of(
    verdict: Verdict,
    row: LockedMessage | LockedDelivery,
    item: SettleItem,
    rules: QueueSettings | QueuePolicy,
    now: int,
) -> Settling:
    """Of a row that is claimed with the item's token, unless it is completed: that is not decided by row."""
    if verdict == "extend":
        seconds = rules.visibility_timeout_s if item.seconds is None else item.seconds
        until = now + int(seconds * 1000)
        return Settling(
            EXTEND, Change(row, columns={"claim_until": until}), Settled(row.id, "claimed", claim_until=until)
        )
    token = {"claim_token": LETTERS[verdict] + item.claim_token[1:]}
    if verdict == "release":
        return Settling(RELEASE, Change(row, columns=token), Settled(row.id, "pending"))
    failed = Change(row, item.told, item.failure, columns=token)
    wait_ms = wait_before_retry(rules, row.attempts - row.reclaims)
    if item.dead or wait_ms is None:
        return Settling(GIVE_UP, failed, Settled(row.id, "dead"))
    failed = failed._replace(told={"backoff_ms": wait_ms})
    if wait_ms == 0:
        return Settling(RETRY_AT_ONCE, failed, Settled(row.id, "pending"))
    visible_at = now + wait_ms
    failed = failed._replace(columns=token | {"visible_at": visible_at})
    return Settling(RETRY, failed, Settled(row.id, "delayed", visible_at=visible_at))
