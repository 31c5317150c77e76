"""Why an attempt failed: the type of the error, its message and its stack, as the worker told them, kept within bounds.

The text of it, `Type: message`, is what lists, histories and events show. The stack is kept of the last failure only, and shown
where one message is looked at.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

LONGEST_TYPE = 200
LONGEST_MESSAGE = 2_000
LONGEST_STACK = 8_000

_PYTHON = "Traceback (most recent call last):\n"
_MORE = "…"
_encode = msgspec.json.Encoder().encode


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error as a worker tells it. What is too long is cut: a failure that cannot be recorded would be lost. It needs a
    `type` or a `message`."""

    type: Annotated[str, Meta(description="such as `KeyError`; up to 200 characters are kept")] | None = None
    message: Annotated[str, Meta(description="up to 2,000 characters are kept")] | None = None
    stack: Annotated[str, Meta(description="the innermost 8,000 characters are kept; left out of lists")] | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "type", _cut(_clean(self.type), LONGEST_TYPE))
        force_setattr(self, "message", _cut(_clean(self.message), LONGEST_MESSAGE))
        force_setattr(self, "stack", _cut_stack(_clean(self.stack)))
        if self.type is None and self.message is None:
            raise ValueError("an error needs a `type` or a `message`")

    @property
    def text(self) -> str:
        """Type and message, as far as there are.

        >>> Failure(type="KeyError", message="'email'").text
        "KeyError: 'email'"
        """
        return ": ".join(part for part in (self.type, self.message) if part is not None)

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


def _clean(text: str | None) -> str | None:
    """Databases keep no NUL in text. A worker that quotes one still gets its failure recorded."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if text else None


def _cut(text: str | None, longest: int) -> str | None:
    return text if text is None or len(text) <= longest else text[: longest - 1] + _MORE


def _cut_stack(stack: str | None) -> str | None:
    """Python prints the innermost call last; most others print it first."""
    if stack is None or len(stack) <= LONGEST_STACK:
        return stack
    if not stack.startswith(_PYTHON):
        return _cut(stack, LONGEST_STACK)
    head = f"{_PYTHON}  {_MORE}\n"
    kept = stack[len(head) - LONGEST_STACK :]
    return head + (kept.partition("\n")[2] or kept)


CLAIM_TIMED_OUT = Failure(type="ClaimTimedOut", message="its worker neither settled nor extended the claim in time")
"""A worker that died, hangs, or forgot to extend: nobody tells why, so this does."""
