"""Checks of what callers pass: each names the argument, the value and the remedy."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import TypeVar, cast

from relevo.errors import BadArgument, WrongType

T = TypeVar("T")

_LONGEST_S = 10 * 365 * 86_400


def checked_queue_name(name: object) -> str:
    if not isinstance(name, str):
        raise WrongType(argument="queue name", value=name, expected="str")
    if not name.strip():
        raise BadArgument(
            argument="queue name", value=name, reason="must not be blank", remedy="Give the queue a name."
        )
    if "{" in name or "}" in name:
        reason, remedy = "braces would break the cluster slot of its keys", "Use other characters."
        raise BadArgument(argument="queue name", value=name, reason=reason, remedy=remedy)
    return name


def flag(argument: str, value: object) -> bool:
    """True or False. What only counts as one is refused: a setting that was read as the text "no" would count as True.

    >>> flag("store_results", True)
    True
    """
    if not isinstance(value, bool):
        raise WrongType(argument=argument, value=value, expected="bool", remedy="Pass True or False.")
    return value


def positive(argument: str, value: object, *, zero: bool = False) -> int:
    least = 0 if zero else 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongType(argument=argument, value=value, expected="int")
    if value < least:
        raise BadArgument(
            argument=argument, value=value, reason=f"must be at least {least}", remedy=f"Pass {least} or more."
        )
    return value


def seconds(argument: str, value: object, *, zero: bool = False) -> float:
    """A length of time in seconds, of ten years at most.

    >>> seconds("timeout_s", 1.5)
    1.5
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongType(argument=argument, value=value, expected="int or float", remedy="Pass a number of seconds.")
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero) or value > _LONGEST_S:
        reason = f"must be {'at least' if zero else 'greater than'} 0 and at most {_LONGEST_S}"
        raise BadArgument(argument=argument, value=value, reason=reason, remedy="Pass a number of seconds.")
    return float(value)


def factor(argument: str, value: object) -> float:
    """What a wait is multiplied with each time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        remedy = "Pass a finite number of 0 or more."
        raise BadArgument(argument=argument, value=value, reason="not a usable factor", remedy=remedy)
    return float(value)


def texts(argument: str, values: object) -> Collection[str]:
    """Several names. A single one is refused: it would be taken letter by letter."""
    if isinstance(values, str | bytes):
        raise WrongType(argument=argument, value=values, expected="a list of str", remedy=f"Pass [{values!r}].")
    if not isinstance(values, Collection):
        raise WrongType(argument=argument, value=values, expected="a list of str")
    for value in cast("Collection[object]", values):
        if not isinstance(value, str):
            raise WrongType(argument=f"{argument} element", value=value, expected="str")
    return cast("Collection[str]", values)


def instance(argument: str, value: object, kind: type[T], *, remedy: str = "") -> T:
    """A value of one class."""
    if not isinstance(value, kind):
        raise WrongType(argument=argument, value=value, expected=kind.__name__, remedy=remedy)
    return value


def function(argument: str, value: object, *, expected: str = "a function", remedy: str = "") -> None:
    """Something to call."""
    if not callable(value):
        raise WrongType(argument=argument, value=value, expected=expected, remedy=remedy)


def checked_name(argument: str, name: object) -> str:
    """A name that is not blank, such as that of a group or a consumer."""
    if not isinstance(name, str):
        raise WrongType(argument=argument, value=name, expected="str")
    if not name.strip():
        remedy = "Pass a name, or leave it out."
        raise BadArgument(argument=argument, value=name, reason="must not be blank", remedy=remedy)
    return name


def known_names(argument: str, value: object, given: Iterable[object], known: Collection[str]) -> None:
    """Refuses a name that is not known, and says which one may have been meant."""
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else f"Use {', '.join(sorted(known))}."
            raise BadArgument(argument=argument, value=value, reason=f"unknown {name!r}", remedy=remedy)
