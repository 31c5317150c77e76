"""A result that cannot be stored: what in it, and where. The run that gave it ended well and is not repeated."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast, get_args

from relevo.errors import BadArgument, BadResult, NotEncodable
from relevo.wire.payload import encode_payload

OnBadResult = Literal["drop", "dead"]
"""What becomes of a job whose result cannot be stored: it is done without one, or dead."""

_DEEPEST = 50


def checked_on_bad_result(argument: str, value: object) -> None:
    if value not in get_args(OnBadResult):
        remedy = 'Pass "drop" (the job is done) or "dead".'
        raise BadArgument(argument=argument, value=value, reason="unknown", remedy=remedy)


def bad_result(name: str, value: object, error: Exception) -> BadResult:
    """The error of a result that `error` was raised for.

    >>> bad_result("report", {"rows": [1, {2}]}, TypeError()).where
    'result["rows"][1]'
    """
    found = _first_odd(value, "result", 0)
    where, odd = ("result", value) if found is None else found
    why = str(error.fields.get("reason", "")) if isinstance(error, NotEncodable) else str(error)
    return BadResult(task=name, where=where, kind=type(odd).__qualname__, reason=why or type(error).__name__)


def _first_odd(value: object, where: str, depth: int) -> tuple[str, object] | None:
    """The first part that cannot be written, and the way to it."""
    if depth > _DEEPEST:
        return where, value
    parts: list[tuple[str, object]] = []
    if isinstance(value, Mapping):
        for key, part in cast("Mapping[object, object]", value).items():
            parts += [(f"{where} key {key!r:.40}", key), (f"{where}[{key!r:.40}]".replace("'", '"'), part)]
    elif isinstance(value, list | tuple):
        parts = [(f"{where}[{at}]", part) for at, part in enumerate(cast("list[object]", value))]
    else:
        try:
            encode_payload(value, "")
        except NotEncodable:
            return where, value
    for place, part in parts:
        found = _first_odd(part, place, depth + 1)
        if found is not None:
            return found
    return None


# --- results of other processes --------------------------------------------------------------------------------------------


def pickled_call(name: str, call: Callable[[], object]) -> bytes:
    """What `call` returned, as bytes, on the process that made it. Pickled here: the pool would take a result that cannot
    travel for a failure of the call."""
    value = call()
    try:
        return pickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - pickle raises whatever the value's own code does
        raise BadResult(task=name, where="result", kind=type(value).__qualname__, reason=str(error)) from None


def unpickled(name: str, data: bytes) -> Any:
    """The result, on the process that wanted it."""
    try:
        return pickle.loads(data)  # noqa: S301 - written by a process of our own pool
    except Exception as error:
        raise BadResult(task=name, where="result", kind="unknown", reason=str(error)) from error
