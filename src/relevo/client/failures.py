"""An exception as the server is told of it: type, message, and a stack that begins with the frames of your own code."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from relevo.contract.failures import LONGEST_MESSAGE, LONGEST_STACK
from relevo.errors import BadArgument

_OURS = tuple(
    f"{folder}{os.sep}"
    for folder in (
        Path(__file__).parents[1],
        Path(asyncio.__file__).parent,
        Path(concurrent.futures.__file__).parent,
    )
)
"""What calls a handler: this package, asyncio, and the threads of plain functions."""
_FRAMES = 30
_LONGEST_LINE = 1_000
_PASSWORD = re.compile(r"(?<=://)([^\s:/@]*):[^\s@/]+(?=@)")
_HEAD = "Traceback (most recent call last):\n"


def told(error: BaseException | Mapping[str, Any]) -> dict[str, Any]:
    """What `fail` sends as `error`: of an exception its type, message and stack; a mapping as it is.

    >>> told(KeyError("email"))
    {'type': 'KeyError', 'message': "'email'"}
    >>> told(OSError("cannot reach postgresql://me:secret@db"))["message"]
    'cannot reach postgresql://me:***@db'
    """
    if not isinstance(error, BaseException):
        return dict(error)
    parts = {"type": type_name(error), "message": _message(error), "stack": _stack(error)}
    return {name: _sendable(text) for name, text in parts.items() if text}


def why_of(reason: str | None, error: BaseException | Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a `fail` that say why."""
    if reason is None and error is None:
        remedy = "Pass the exception as `error`, or a `reason`."
        raise BadArgument(
            argument="error", value=None, reason="nobody would know why the message failed", remedy=remedy
        )
    return {"reason": reason, "error": None if error is None else told(error)}


def type_name(error: BaseException) -> str:
    """As Python prints it: with its module, unless it is built in.

    >>> type_name(ValueError()), type_name(asyncio.QueueFull())
    ('ValueError', 'asyncio.queues.QueueFull')
    """
    kind = type(error)
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def own_frames(error: BaseException) -> TracebackType | None:
    """The traceback from the first frame on that is neither ours nor asyncio's; None when there is none."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_OURS):
        frame = frame.tb_next
    return frame


def _message(error: BaseException) -> str:
    try:
        return str(error)[:LONGEST_MESSAGE]
    except Exception:  # noqa: BLE001 - Python prints the same
        return f"<exception {type(error).__name__} cannot be printed>"


def _stack(error: BaseException) -> str | None:
    frames = own_frames(error)
    if frames is None:
        return None
    lines = traceback.TracebackException(type(error), error, frames, limit=-_FRAMES, compact=True).format()
    stack = "".join(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…\n" for line in lines)
    if len(stack) <= LONGEST_STACK:
        return stack
    return f"{_HEAD}  …\n" + stack[len(_HEAD) + 4 - LONGEST_STACK :].partition("\n")[2]


def _sendable(text: str) -> str:
    """Without the passwords of addresses. Half a surrogate pair, as file names may hold, is no JSON."""
    return _PASSWORD.sub(r"\1:***", text).encode(errors="backslashreplace").decode()
