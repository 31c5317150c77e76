"""Why an attempt failed: the type of the error, its message and its stack, as the worker told them, kept within bounds."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from relevo.contract.fields import about

LONGEST_TYPE = 200
LONGEST_MESSAGE = 2_000
LONGEST_STACK = 8_000

_PYTHON = "Traceback (most recent call last):\n"
_MORE = "…"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error as a worker told it. What is too long is cut: a failure that cannot be recorded would be lost."""

    type: Annotated[str | None, about("The kind of error, such as `KeyError`. Up to 200 characters are kept.")] = None
    message: Annotated[str | None, about("What the error says. Up to 2,000 characters are kept.")] = None
    stack: Annotated[
        str | None, about("Where it was raised. The innermost 8,000 characters are kept; lists leave it out.")
    ] = None

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


class FailureIn(Failure, frozen=True, forbid_unknown_fields=True):
    """The error of an attempt that failed. It needs a `type` or a `message`. What is too long is cut."""


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
