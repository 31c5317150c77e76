"""What a failed run says for itself: its error in a line, and the traceback of the code that is not ours.

A retry storm formats thousands of tracebacks a second, and most of them go through the same lines: the text of a frame is
made once and kept.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import linecache
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, TracebackType
from typing import Final, cast

from relevo.engine.job.redaction import hide_passwords

LONGEST_ERROR: Final = 2000
LONGEST_TRACEBACK: Final = 4096
"""Bytes that are kept of a traceback. The innermost frames stay: they say where it happened."""

_OURS = (
    str(Path(__file__).parents[1]) + "/",
    str(Path(asyncio.__file__).parent) + "/",
    str(Path(concurrent.futures.__file__).parent) + "/",
    contextlib.__file__,
)
_HEAD = "Traceback (most recent call last):\n"
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
_LEFT_OUT = "  ... {} frames left out ...\n"
_MOST_KEPT = 2000
_MOST_DECORATORS = 20
_MOST_MEMBERS = 5  # of a group of exceptions
_MOST_LINKS = 8  # of a chain of causes
_MOST_FRAMES = 60  # of one exception: a recursion has a thousand, and all say the same
_SURROGATES = re.compile("[\ud800-\udfff]")

_names: dict[type[BaseException], str] = {}
_frames: dict[tuple[int, int], tuple[CodeType, str]] = {}
"""By the code's address, and with the code so that the address stays its own: code of two files may compare as equal."""


def error_text(error: BaseException) -> str:
    """`Type: message`, with the type as Python's own traceback names it.

    >>> error_text(KeyError("email"))
    "KeyError: 'email'"
    >>> error_text(TimeoutError())
    'TimeoutError'
    """
    kind = type(error)
    name = _names.get(kind) or _named(kind)
    try:
        said = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - an error that cannot say what it is has still happened
        said = "<its message cannot be shown>"
    if not said:
        return name
    text = hide_passwords(f"{name}: {said}")
    if len(text) > LONGEST_ERROR:
        text = text[: LONGEST_ERROR - 1] + "…"
    return text if text.isascii() else _SURROGATES.sub("?", text)


def _named(kind: type[BaseException]) -> str:
    if len(_names) >= _MOST_KEPT:
        _names.clear()
    name = _names[kind] = type_name(kind)
    return name


def type_name(kind: type[BaseException]) -> str:
    """
    >>> type_name(KeyError), type_name(asyncio.QueueEmpty)
    ('KeyError', 'asyncio.queues.QueueEmpty')
    """
    module = kind.__module__
    if module.startswith("relevo.errors."):
        module = "relevo.errors"  # where users import it from
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


def traceback_text(error: BaseException, said: str, handler: Callable[..., object] | None = None) -> str:
    """The traceback without the frames of relevo, asyncio and the pools: chained causes first, bounded in size. `said` is the
    error's text. An error that has no frame of the user's at all names the place of its `handler`."""
    links = _chain(error) if error.__context__ is not None or error.__cause__ is not None else []
    frames = _user_frames(error)
    if isinstance(error, BaseExceptionGroup):
        return _group_text(cast("BaseExceptionGroup[BaseException]", error), frames)
    if frames and not links and not hasattr(error, "__notes__"):  # the usual error, in a storm of them
        whole = f"{_HEAD}{''.join(frames)}{said}"
        if len(whole) < LONGEST_TRACEBACK // 4:  # the more it may have in bytes
            return whole
    if not frames and links and isinstance(links[0][0], TimeoutError | asyncio.CancelledError):
        # A time-out: where it waited is in what was cancelled for it. The links between are how asyncio does that.
        while links and not frames:
            frames = _user_frames(links.pop(0)[0])
        links = []
    remote = _remote(links)
    if remote is not None:
        frames, links = remote, []
    if not frames and handler is not None:
        frames = _place_of(handler)
    parts: list[str] = []
    for cause, joint in reversed(links):
        parts.append(_block(cause, _user_frames(cause), LONGEST_TRACEBACK // 4) + joint)
    own = _block(error, frames, LONGEST_TRACEBACK)
    room = LONGEST_TRACEBACK - _size(own)
    kept: list[str] = []
    for part in reversed(parts):  # the nearest causes first, while there is room
        room -= _size(part)
        if room < 0:
            break
        kept.insert(0, part)
    return "".join((*kept, own)).rstrip("\n")


def _group_text(group: BaseExceptionGroup[BaseException], frames: list[str]) -> str:
    """A group, and in it the errors that matter: those of its tasks, each with a share of the room."""
    told, members = _block(group, frames, LONGEST_TRACEBACK // 4), group.exceptions[:_MOST_MEMBERS]
    room = (LONGEST_TRACEBACK - _size(told)) // len(members) - 100
    for number, member in enumerate(members, start=1):
        text = traceback_text(member, error_text(member))
        lines = _cut(text, max(room - 4 * text.count("\n"), room // 2)).splitlines()
        told += f"  +---------------- {number} of {len(group.exceptions)} ----------------\n"
        told += "".join(f"  | {line}\n" for line in lines)
    return _cut(told.rstrip("\n"), LONGEST_TRACEBACK)


def _block(error: BaseException, frames: list[str], most: int) -> str:
    """One exception as Python prints it; the outermost frames go first when it is too long."""
    end = error_text(error) + "\n"
    for note in getattr(error, "__notes__", ())[:10]:
        end += f"{note}\n" if isinstance(note, str) else ""
    if not frames:
        return _cut(end, most)
    room = most - _size(end) - len(_HEAD) - len(_LEFT_OUT)
    kept = len(frames)
    size = 0
    for at in range(len(frames) - 1, -1, -1):
        size += _size(frames[at])
        if size > room:
            kept = len(frames) - 1 - at
            break
    shown = frames[len(frames) - kept :] if kept else []
    left_out = _LEFT_OUT.format(len(frames) - kept) if kept < len(frames) else ""
    return _cut(f"{_HEAD}{left_out}{''.join(shown)}{end}", most)


def _user_frames(error: BaseException) -> list[str]:
    """The text of each frame that is not ours, outermost first."""
    found: list[str] = []
    at: TracebackType | None = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        known = _frames.get((id(code), at.tb_lasti))
        text = _kept(code, at) if known is None else known[1]
        if text:
            found.append(text)
        at = at.tb_next
    if len(found) > _MOST_FRAMES:
        half = _MOST_FRAMES // 2
        found = [*found[:half], _LEFT_OUT.format(len(found) - 2 * half), *found[-half:]]
    return found


def _kept(code: CodeType, at: TracebackType) -> str:
    text = ""
    if not code.co_filename.startswith(_OURS) and not code.co_filename.startswith("<frozen "):
        alone = TracebackType(None, at.tb_frame, at.tb_lasti, at.tb_lineno)
        text = "".join(traceback.format_list(traceback.extract_tb(alone)))
        text = text if text.isascii() else _SURROGATES.sub("?", text)
    if len(_frames) >= _MOST_KEPT:  # code that is made up as it goes must not fill our memory
        _frames.clear()
    _frames[id(code), at.tb_lasti] = code, text
    return text


def _chain(error: BaseException) -> list[tuple[BaseException, str]]:
    """Causes, nearest first, each with the sentence that Python prints behind it."""
    found: list[tuple[BaseException, str]] = []
    seen = {id(error)}
    at: BaseException = error
    while len(found) < _MOST_LINKS:
        cause, joint = at.__cause__, _CAUSE
        if cause is None and not at.__suppress_context__:
            cause, joint = at.__context__, _CONTEXT
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        found.append((cause, joint))
        at = cause
    return found


def _remote(links: list[tuple[BaseException, str]]) -> list[str] | None:
    """The frames of a run on another process, which come as text; None for a run on this one."""
    if not links or type(links[0][0]).__name__ != "_RemoteTraceback":
        return None
    frames: list[str] = []
    for line in str(links[0][0]).splitlines(keepends=True):
        if line.startswith('  File "'):
            frames.append(line)
        elif line.startswith("    ") and frames:
            frames[-1] += line
    return [each for each in frames if not each[len('  File "') :].startswith(_OURS)]


def _place_of(handler: Callable[..., object]) -> list[str]:
    function: object = (
        handler if hasattr(handler, "__code__") else type(handler).__call__
    )  # an object that can be called
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or code.co_filename.startswith(_OURS):
        return []
    number = code.co_firstlineno
    for at in range(number, number + _MOST_DECORATORS):  # the first line is that of its first decorator
        line = linecache.getline(code.co_filename, at).strip()
        if line.startswith(("def ", "async def ")):
            return [f'  File "{code.co_filename}", line {at}, in {code.co_name}\n    {line}\n']
    return [f'  File "{code.co_filename}", line {number}, in {code.co_name}\n']


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _cut(text: str, most: int) -> str:
    """The end of a text: it says what happened."""
    return text if _size(text) <= most else "…" + text.encode(errors="replace")[3 - most :].decode(errors="ignore")
