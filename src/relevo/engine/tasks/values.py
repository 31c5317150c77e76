"""Single values on the wire: what an annotation accepts, and the plain form (text, number, bytes) it travels in."""

from __future__ import annotations

import base64
import binascii
import enum
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import msgspec

_SHOWN = 40


class Mismatch(Exception):
    """A value that does not fit its annotation. `place` is where it is inside the argument: `[3].when`."""

    def __init__(self, expected: str, value: object, *, given: str | None = None, place: str = "") -> None:
        super().__init__(expected, value)
        self.expected = expected
        self.given: str = given if given is not None else described(value)
        self.place: str = place

    def inside(self, step: str) -> Mismatch:
        """The same, seen from one step further out."""
        self.place = step + self.place
        return self

    @property
    def reason(self) -> str:
        return f"expected {self.expected}, got {self.given}"


def described(value: object) -> str:
    """The type of a value and the value itself, cut short.

    >>> described("tomorrow"), described(None)
    ("str 'tomorrow'", 'None')
    """
    if value is None:
        return "None"
    text = repr(value)
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return f"{type(value).__name__} {shown}"


class Value:
    """How values of one annotation travel. The base is for `Any`: they travel as they are."""

    expected = "any plain value"
    plain = True
    """The form on the wire is the value itself: to encode and to decode is only to look."""
    rank = 90
    """Where it stands among the members of a union: the more particular a form, the earlier it is tried."""

    def encode(self, value: Any) -> Any:
        """The plain form of a value, or `Mismatch`."""
        return value

    def decode(self, form: Any) -> Any:
        """The value of a plain form, or `Mismatch`."""
        return form

    def passes(self, kind: type) -> bool:  # noqa: ARG002 - others look at it
        """Whether every value of exactly this class fits and travels as it is: then nobody looks at it again."""
        return True

    def known(self, form: Any) -> bool:  # noqa: ARG002
        """Whether nothing in the form is foreign to this annotation: tells members of a union apart."""
        return True


ANY = Value()


class Particular(Value):
    """All but `Any`: values are looked at, one by one."""

    def passes(self, kind: type) -> bool:  # noqa: ARG002
        return False


class Atom(Particular):
    """str, int, float, bool, bytes, None, or a union of some of them."""

    def __init__(self, expected: str, types: tuple[type, ...], rank: int) -> None:
        self.expected = expected
        self.types = types
        self.rank = rank

    def passes(self, kind: type) -> bool:
        return kind in self.types

    def encode(self, value: Any) -> Any:
        if isinstance(value, self.types):
            return value
        raise Mismatch(self.expected, value)

    def decode(self, form: Any) -> Any:
        if isinstance(form, self.types):
            return form
        raise Mismatch(self.expected, form)


class Binary(Atom):
    """bytes or bytearray. Who can write no bytes (JSON) sends them as base64."""

    def __init__(self, kind: type) -> None:
        super().__init__(kind.__name__, (kind,), rank=82)
        self.plain: bool = kind is bytes

    def passes(self, kind: type) -> bool:
        return self.plain and kind is bytes

    def decode(self, form: Any) -> Any:
        if isinstance(form, str):
            try:
                form = base64.b64decode(form, validate=True)
            except (binascii.Error, ValueError):
                raise Mismatch(f"{self.expected} or base64 text", form) from None
        if not isinstance(form, bytes):
            raise Mismatch(self.expected, form)
        return form if self.plain else self.types[0](form)


class Text(Particular):
    """A value that travels as text: dates, UUIDs, Decimals, paths."""

    plain = False

    def __init__(self, kind: type, write: Callable[[Any], str], read: Callable[[Any], Any], rank: int) -> None:
        self.expected: str = kind.__name__
        self.kind = kind
        self.rank = rank
        self._write = write
        self._read = read

    def encode(self, value: Any) -> Any:
        # A datetime is a date to Python; it would come back without its time.
        if not isinstance(value, self.kind) or (self.kind is date and isinstance(value, datetime)):
            raise Mismatch(self.expected, value)
        return self._write(value)

    def decode(self, form: Any) -> Any:
        try:
            return self._read(form)
        except (ValueError, TypeError, AttributeError, OverflowError, InvalidOperation):
            raise Mismatch(self.expected, form) from None


def _read_datetime(form: Any) -> datetime:
    # Some producers write msgpack's own timestamps.
    return datetime.fromisoformat(form) if isinstance(form, str) else form.to_datetime()


def _read_timedelta(form: Any) -> timedelta:
    if isinstance(form, int | float) and not isinstance(form, bool):
        return timedelta(seconds=form)
    return msgspec.convert(form, timedelta)


def _read_decimal(form: Any) -> Decimal:
    if isinstance(form, bool):
        raise TypeError
    return Decimal(form if isinstance(form, str | int) else repr(float(form)))


def _read_text(form: Any) -> str:
    if not isinstance(form, str):
        raise TypeError
    return form


def text_value(kind: type) -> Text | None:
    """How a class of the standard library travels as text, if it does."""
    if kind in _TEXTS:
        return _TEXTS[kind]
    if issubclass(kind, PurePath):
        return Text(kind, str, lambda form: kind(_read_text(form)), rank=80)
    return None


_TEXTS: dict[type, Text] = {
    UUID: Text(UUID, str, lambda form: UUID(_read_text(form)), rank=40),
    date: Text(date, date.isoformat, date.fromisoformat, rank=41),
    time: Text(time, time.isoformat, time.fromisoformat, rank=42),
    datetime: Text(datetime, datetime.isoformat, _read_datetime, rank=43),
    timedelta: Text(timedelta, msgspec.to_builtins, _read_timedelta, rank=44),
    Decimal: Text(Decimal, str, _read_decimal, rank=45),
}

ATOMS: dict[object, Atom] = {
    type(None): Atom("None", (type(None),), rank=0),
    bool: Atom("bool", (bool,), rank=10),
    int: Atom("int", (int,), rank=11),
    float: Atom("float", (float, int), rank=12),
    str: Atom("str", (str,), rank=81),
    bytes: Binary(bytes),
    bytearray: Binary(bytearray),
}


class Choice(Particular):
    """One of some values: an Enum (by value where these are text or numbers, else by name), or a Literal."""

    plain = False
    rank = 30

    def __init__(self, expected: str, members: Iterable[tuple[Any, Any]]) -> None:
        self.expected = expected
        self._members = [(_key(form), form, value) for form, value in members]
        self._forms = {_key(value): form for _, form, value in self._members}
        self._values = {key: value for key, _, value in self._members}

    def encode(self, value: Any) -> Any:
        try:
            return self._forms[_key(value)]
        except (KeyError, TypeError):
            raise Mismatch(self.expected, value) from None

    def decode(self, form: Any) -> Any:
        try:
            return self._values[_key(form)]
        except (KeyError, TypeError):
            raise Mismatch(self.expected, form) from None


def _key(value: Any) -> tuple[object, Any]:
    return (value.__class__, value)  # True is not 1 here


class FlagValue(Particular):
    """A combination of flags, as a number."""

    plain = False
    rank = 31

    def __init__(self, kind: type[enum.Flag]) -> None:
        self.expected: str = kind.__name__
        self._kind = kind

    def encode(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            raise Mismatch(self.expected, value)
        return value.value

    def decode(self, form: Any) -> Any:
        try:
            return self._kind(form)
        except (ValueError, TypeError):
            raise Mismatch(self.expected, form) from None


def enum_value(kind: type[enum.Enum]) -> Value:
    if issubclass(kind, enum.Flag):
        return FlagValue(kind)
    members = list(kind)
    by_value = all(type(member.value) in (str, int) for member in members)
    forms = [(member.value if by_value else member.name, member) for member in members]
    shown = ", ".join(repr(form) for form, _ in forms[:8])
    return Choice(f"{kind.__name__} ({shown}{', …' if len(forms) > 8 else ''})", forms)


def literal_value(choices: tuple[Any, ...]) -> Value:
    members: list[tuple[Any, Any]] = []
    for choice in choices:
        kind = cast("type[Any]", type(choice))
        form = enum_value(kind).encode(choice) if issubclass(kind, enum.Enum) else choice
        members.append((form, choice))
    return Choice(" or ".join(repr(choice) for choice in choices), members)
