"""What a worker says of a message it claimed: complete, fail, release or extend, with the token that is its right to say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from relevo.errors import InvalidInput
from relevo.work.message.failure import Failure

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
