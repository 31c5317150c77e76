"""Why an attempt failed: the type of the error, its message and its stack, as the worker told them, kept within bounds.

The text of it, `Type: message`, is what lists, histories and events show. The stack is kept of the last failure only, and shown
where one message is looked at.
"""

from __future__ import annotations

import msgspec

from relevo.contract import failures as contract

_encode = msgspec.json.Encoder().encode


class Failure(contract.Failure, frozen=True):
    """A failure, and what rows and events say of it."""

    def told_with(self, reason: str | None) -> str:
        """The text together with a reason that the worker gave beside the error.

        >>> Failure(type="KeyError", message="'email'").told_with("no address")
        "no address (KeyError: 'email')"
        """
        if reason is None or reason in (self.text, self.message):
            return self.text
        return f"{reason} ({self.text})"

    def extras(self, reason: str) -> dict[str, str]:
        """What events of the failure say."""
        return {"reason": reason} if self.type is None else {"reason": reason, "error_type": self.type}

    def encoded(self) -> str:
        """For the column `error`."""
        return _encode(self).decode()


def failure_of(encoded: str | None, *, stack: bool = True) -> Failure | None:
    """The column `error`, read; with or without the stack."""
    if encoded is None:
        return None
    failure = msgspec.json.decode(encoded, type=Failure)
    return failure if stack else msgspec.structs.replace(failure, stack=None)


CLAIM_TIMED_OUT = Failure(type="ClaimTimedOut", message="its worker neither settled nor extended the claim in time")
"""A worker that died, hangs, or forgot to extend: nobody tells why, so this does."""
