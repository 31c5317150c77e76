"""Values made of others: lists, sets, tuples, dicts, unions, and the classes people write (dataclasses, models, …)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cached_property
from typing import Any, NamedTuple, cast

import msgspec

from relevo.engine.tasks.values import ANY, Atom, Mismatch, Particular, Value

ValueOf = Callable[[Any], Value]
"""The value of an annotation; given by `annotations`, which knows all kinds."""


class ItemsOf(Particular):
    """A list of equal things, and what else is written as one: sets, frozensets, tuples of any length."""

    rank = 60

    def __init__(self, expected: str, item: Value, kinds: tuple[type, ...], make: Callable[[Any], Any]) -> None:
        self.expected = expected
        self._item = item
        self._kinds = kinds
        self._make = make
        self.plain: bool = item.plain and make is list
        # Plain items are looked at by their classes alone, all at once.
        self._classes = frozenset({*item.types}) if isinstance(item, Atom) else frozenset[type]()

    def passes(self, kind: type) -> bool:
        return kind is list and self._item is ANY and self._make is list

    def encode(self, value: Any) -> Any:
        if not isinstance(value, self._kinds):
            raise Mismatch(self.expected, value)
        if self._item is ANY or (self._item.plain and self._classes.issuperset(map(type, value))):
            return value if isinstance(value, list) else list(value)  # pyright: ignore[reportUnknownVariableType]
        return _each(self._item.encode, value)

    def decode(self, form: Any) -> Any:
        if not isinstance(form, list | tuple):
            raise Mismatch(self.expected, form)
        items = cast("Sequence[Any]", form)
        if self._item is not ANY and not (self._item.plain and self._classes.issuperset(map(type, items))):
            items = _each(self._item.decode, items)
        try:
            return items if self.plain else self._make(items)
        except TypeError as error:  # a set of what cannot be hashed
            raise Mismatch(self.expected, items, given=str(error)) from None


def _each(turn: Callable[[Any], Any], items: Any) -> list[Any]:
    turned: list[Any] = []
    for item in items:
        try:
            turned.append(turn(item))
        except Mismatch as mismatch:
            raise mismatch.inside(f"[{len(turned)}]") from None
    return turned


class TupleOf(Particular):
    """A tuple of fixed length, and a NamedTuple: both travel as a list; a NamedTuple is also read from a dict of its names."""

    plain = False
    rank = 50

    def __init__(self, expected: str, items: Sequence[Value], kind: type = tuple) -> None:
        self.expected = expected
        self._items = items
        self._kind = kind
        self._names: tuple[str, ...] = getattr(kind, "_fields", ())
        self._fewest = len(items) - len(getattr(kind, "_field_defaults", ()))

    def encode(self, value: Any) -> Any:
        if type(value) is not self._kind or len(value) != len(self._items):
            raise Mismatch(self.expected, value)
        return [self._at(at, item.encode, each) for at, (item, each) in enumerate(zip(self._items, value, strict=True))]

    def decode(self, form: Any) -> Any:
        if self._names and isinstance(form, dict):
            return self._by_name(cast("dict[Any, Any]", form))
        if not isinstance(form, list | tuple):
            raise Mismatch(self.expected, form)
        parts = cast("Sequence[Any]", form)
        if not self._fewest <= len(parts) <= len(self._items):
            raise Mismatch(self.expected, parts)
        read = [
            self._at(at, item.decode, each) for at, (item, each) in enumerate(zip(self._items, parts, strict=False))
        ]
        return self._kind(*read) if self._names else tuple(read)

    def _by_name(self, form: dict[Any, Any]) -> Any:
        items = {name: item for name, item in zip(self._names, self._items, strict=True) if name in form}
        read = {name: _named(name, item.decode, form[name]) for name, item in items.items()}
        missing = [name for name in self._names[: self._fewest] if name not in read]
        if missing:
            raise Mismatch(self.expected, form, given=f"no {missing[0]!r}")
        return self._kind(**read)

    def _at(self, at: int, turn: Callable[[Any], Any], value: Any) -> Any:
        try:
            return turn(value)
        except Mismatch as mismatch:
            raise mismatch.inside(f".{self._names[at]}" if self._names else f"[{at}]") from None


def _named(name: str, turn: Callable[[Any], Any], value: Any) -> Any:
    try:
        return turn(value)
    except Mismatch as mismatch:
        raise mismatch.inside(f".{name}") from None


class DictOf(Particular):
    """A dict of equal things. Keys travel in their plain form too."""

    rank = 61

    def __init__(self, expected: str, key: Value, value: Value, kinds: tuple[type, ...] = (dict,)) -> None:
        self.expected = expected
        self._key = key
        self._value = value
        self._kinds = kinds
        self.plain: bool = key.plain and value.plain

    def passes(self, kind: type) -> bool:
        return kind is dict and self._key is ANY and self._value is ANY

    def encode(self, value: Any) -> Any:
        if not isinstance(value, self._kinds):
            raise Mismatch(self.expected, value)
        return self._turned(value, self._key.encode, self._value.encode)

    def decode(self, form: Any) -> Any:
        if not isinstance(form, dict):
            raise Mismatch(self.expected, form)
        return self._turned(form, self._key.decode, self._value.decode)  # pyright: ignore[reportUnknownArgumentType]

    def _turned(self, given: Any, key_turn: Callable[[Any], Any], turn: Callable[[Any], Any]) -> Any:
        if self._key is ANY and self._value is ANY and isinstance(given, dict):
            return given  # pyright: ignore[reportUnknownVariableType]
        turned: dict[Any, Any] = {}
        for key, value in given.items():
            try:
                turned[key_turn(key)] = turn(value)
            except Mismatch as mismatch:
                raise mismatch.inside(f"[{key!r}]") from None
        return turned


class Field(NamedTuple):
    """One field of a class or a TypedDict."""

    name: str
    value: Value
    required: bool


class Fields(Particular, ABC):
    """A class with fields, as a dict of them. Fields are looked up when first needed: a class may hold itself."""

    plain = False
    rank = 52

    def __init__(self, kind: type, hints: Callable[[], Mapping[str, Any]], value_of: ValueOf) -> None:
        self.expected: str = kind.__name__
        self._kind = kind
        self._hints = hints
        self._value_of = value_of

    @cached_property
    def _fields(self) -> dict[str, Field]:
        return {field.name: field for field in self.described(self._hints())}

    @abstractmethod
    def described(self, hints: Mapping[str, Any]) -> list[Field]:
        """The fields of the class, with what their annotations say."""

    def known(self, form: Any) -> bool:
        return isinstance(form, dict) and set(cast("dict[Any, Any]", form)) <= set(self._fields)

    def _read(self, form: Any) -> dict[str, Any]:
        if not isinstance(form, dict):
            raise Mismatch(self.expected, form)
        given, read = cast("dict[Any, Any]", form), dict[str, Any]()
        for name, field in self._fields.items():
            if name in given:
                read[name] = _named(name, field.value.decode, given[name])
            elif field.required:
                raise Mismatch(self.expected, given, given=f"no {name!r}")
        return read


class DataclassOf(Fields):
    """A dataclass. A field it does not know is left out when it is read: newer producers may send more."""

    def described(self, hints: Mapping[str, Any]) -> list[Field]:
        return [
            Field(
                each.name,
                self._value_of(hints.get(each.name, Any)),
                each.default is MISSING and each.default_factory is MISSING,
            )
            for each in fields(self._kind)
            if each.init
        ]

    def encode(self, value: Any) -> Any:
        if type(value) is not self._kind:  # a subclass would come back as less than it was
            raise Mismatch(self.expected, value)
        return {name: _named(name, field.value.encode, getattr(value, name)) for name, field in self._fields.items()}

    def decode(self, form: Any) -> Any:
        read = self._read(form)
        try:
            return self._kind(**read)
        except (TypeError, ValueError) as error:  # its own __post_init__
            raise Mismatch(self.expected, form, given=str(error)) from None


class TypedDictOf(Fields):
    """A TypedDict. Keys it does not name travel as they are."""

    def described(self, hints: Mapping[str, Any]) -> list[Field]:
        required: frozenset[str] = getattr(self._kind, "__required_keys__", frozenset())
        return [Field(name, self._value_of(hint), name in required) for name, hint in hints.items()]

    def encode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(self.expected, value)
        given, written = cast("dict[Any, Any]", value), dict[Any, Any]()
        for name, field in self._fields.items():
            if name in given:
                written[name] = _named(name, field.value.encode, given[name])
            elif field.required:
                raise Mismatch(self.expected, given, given=f"no {name!r}")
        return {**given, **written}

    def decode(self, form: Any) -> Any:
        read = self._read(form)
        return {**form, **read}


class StructOf(Particular):
    """A msgspec.Struct, by its own rules (tags, renamed fields, arrays)."""

    plain = False
    rank = 51

    def __init__(self, kind: type, annotation: Any, value_of: ValueOf) -> None:
        self.expected: str = kind.__name__
        self._kind = kind
        self._annotation = annotation
        self._value_of = value_of

    def encode(self, value: Any) -> Any:
        if type(value) is not self._kind:
            raise Mismatch(self.expected, value)
        form = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=self._write)
        self.decode(form)  # its fields are not checked when it is made
        return form

    def decode(self, form: Any) -> Any:
        try:
            return msgspec.convert(form, self._annotation, builtin_types=(bytes,), dec_hook=self._read)
        except msgspec.ValidationError as error:
            raise Mismatch(self.expected, form, given=str(error)) from None

    def known(self, form: Any) -> bool:
        if not isinstance(form, dict):
            return True
        tag = getattr(self._kind, "__struct_config__").tag_field  # noqa: B009 - pyright does not know it of a type
        return set(cast("dict[Any, Any]", form)) <= {*getattr(self._kind, "__struct_encode_fields__", ()), tag}

    def _write(self, value: Any) -> Any:
        return self._value_of(cast("type[Any]", type(value))).encode(value)

    def _read(self, kind: type, form: Any) -> Any:
        return self._value_of(kind).decode(form)


class ModelOf(Particular):
    """A pydantic model, by its own JSON: validators, aliases and strictness are pydantic's."""

    plain = False
    rank = 51

    def __init__(self, kind: Any) -> None:
        self.expected: str = kind.__name__
        self._kind = kind

    def encode(self, value: Any) -> Any:
        if type(value) is not self._kind:
            raise Mismatch(self.expected, value)
        try:
            return msgspec.json.decode(value.model_dump_json(by_alias=True, round_trip=True))
        except ValueError as error:
            raise Mismatch(self.expected, value, given=_one_line(error)) from None

    def decode(self, form: Any) -> Any:
        try:
            return self._kind.model_validate_json(msgspec.json.encode(form))
        except (ValueError, TypeError) as error:
            raise Mismatch(self.expected, form, given=_one_line(error)) from None

    def known(self, form: Any) -> bool:
        if not isinstance(form, dict):
            return True
        names = {name for name, field in self._kind.model_fields.items() for name in (name, field.alias)}
        return set(cast("dict[Any, Any]", form)) <= names


def _one_line(error: Exception) -> str:
    told = getattr(error, "errors", None)
    if callable(told):
        first = cast("list[dict[str, Any]]", told())[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
    return " ".join(str(error).split())


class Optional(Particular):
    """A value or None."""

    def __init__(self, value: Value) -> None:
        self.expected: str = f"{value.expected} or None"
        self.plain: bool = value.plain
        self.rank: int = value.rank
        self._value = value

    def passes(self, kind: type) -> bool:
        return kind is type(None) or self._value.passes(kind)

    def encode(self, value: Any) -> Any:
        return None if value is None else self._of_more(self._value.encode, value)

    def decode(self, form: Any) -> Any:
        return None if form is None else self._of_more(self._value.decode, form)

    def known(self, form: Any) -> bool:
        return form is None or self._value.known(form)

    def _of_more(self, turn: Callable[[Any], Any], value: Any) -> Any:
        try:
            return turn(value)
        except Mismatch as mismatch:
            if not mismatch.place and mismatch.expected == self._value.expected:
                mismatch.expected = self.expected
            raise


class OneOf(Particular):
    """A union. The form on the wire has no tag: a value that would be read back as another member is refused."""

    plain = False
    rank = 70

    def __init__(self, members: Sequence[Value]) -> None:
        self.expected: str = " or ".join(member.expected for member in members)
        self._members = sorted(members, key=lambda member: member.rank)

    def encode(self, value: Any) -> Any:
        for member in self._members:
            try:
                form = member.encode(value)
            except Mismatch:
                continue
            reader, back = self._read(form)
            if reader is member:
                return form
            given = f"{type(value).__name__}, which would be read back as {type(back).__name__}"
            raise Mismatch(f"a value that is one of {self.expected} without doubt", value, given=given)
        raise Mismatch(self.expected, value)

    def decode(self, form: Any) -> Any:
        return self._read(form)[1]

    def _read(self, form: Any) -> tuple[Value, Any]:
        # First those that know every field of it: a member with fewer fields would take what is meant for one with more.
        for member in (*(each for each in self._members if each.known(form)), *self._members):
            try:
                return member, member.decode(form)
            except Mismatch:
                continue
        raise Mismatch(self.expected, form)

    def known(self, form: Any) -> bool:
        return any(member.known(form) for member in self._members)
