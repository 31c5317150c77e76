"""Options: each has its default, its limits and a line about itself where it is declared, and nowhere else.

Constructors check what they are given by these declarations; the flags of `relevo worker` and docs/options.md are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from relevo.arguments import checked_name, flag, positive, seconds

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class About:
    """What is known of an option beside its name, its type and its default."""

    text: str
    topic: str = ""
    """Under which heading the help and the page show it."""
    zero: bool = False
    """A number may be 0."""
    none: bool = False
    """None may be given, and stands for the default."""
    check: Callable[[str, Any], object] | None = None
    """Instead of the check that its type has."""


@dataclass(frozen=True, slots=True)
class Option:
    """A field of a dataclass that is an option."""

    name: str
    kind: str
    default: Any
    about: About


def option(
    default: Any,
    text: str,
    *,
    topic: str = "",
    zero: bool = False,
    none: bool = False,
    check: Callable[[str, Any], object] | None = None,
) -> Any:
    """A field of a dataclass that is an option."""
    return field(default=default, metadata={"about": About(text, topic, zero, none, check)})


def options_of(owner: type) -> Iterator[Option]:
    """The options of a dataclass, in the order in which they are declared."""
    for each in fields(owner):
        if "about" in each.metadata:
            yield Option(each.name, str(each.type), each.default, each.metadata["about"])


def given(owner: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass with the options among `values`, as a caller gave them.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Size:
    ...     width: int = option(80, "Columns.", none=True)
    >>> given(Size, {"width": None, "color": "red"})
    Size(width=80)
    """
    chosen = {
        each.name: values[each.name]
        for each in options_of(owner)
        if each.name in values and not (values[each.name] is None and each.about.none)
    }
    return owner(**chosen)


def check(options: object) -> None:
    """Refuses a value that its option does not take. For a dataclass to call when it is made."""
    for each in options_of(type(options)):
        value, (kind, _, optional) = getattr(options, each.name), each.kind.partition(" | ")
        if value is None and optional:
            continue
        if each.about.check is not None:
            each.about.check(each.name, value)
        elif kind == "int":
            positive(each.name, value, zero=each.about.zero)
        elif kind == "float":
            seconds(each.name, value, zero=each.about.zero)
        elif kind == "bool":
            flag(each.name, value)
        else:
            checked_name(each.name, value)
