"""From annotations to values: how what a task's signature says travels. Looked at once, when the task is defined."""

from __future__ import annotations

import enum
import inspect
import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from functools import partial
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    NewType,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from relevo.engine.tasks.shapes import (
    DataclassOf,
    DictOf,
    ItemsOf,
    ModelOf,
    OneOf,
    Optional,
    StructOf,
    TupleOf,
    TypedDictOf,
)
from relevo.engine.tasks.values import ANY, ATOMS, Atom, Value, enum_value, literal_value, text_value

_SEQUENCES: dict[object, tuple[tuple[type, ...], Callable[[Any], Any]]] = {
    list: ((list,), list),
    set: ((set,), set),
    frozenset: ((frozenset,), frozenset),
    deque: ((deque,), deque),
    Sequence: ((list, tuple), list),
    MutableSequence: ((list,), list),
    Collection: ((list, tuple, set, frozenset), list),
    AbstractSet: ((set, frozenset), set),
}
_MAPPINGS = {dict, Mapping, MutableMapping}


def value_of(annotation: Any) -> Value:
    """How values of an annotation travel; `ANY` for one that says nothing we know: those travel as they are.

    >>> from datetime import datetime
    >>> value_of(list[datetime]).encode([datetime(2026, 1, 31, 8, 0)])
    ['2026-01-31T08:00:00']
    >>> value_of(dict[str, int]).plain
    True
    """
    return _Reading({}).value(annotation)


class Hints:
    """The annotations of a function, each resolved by itself: one that only a type checker can resolve spoils no other."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.unresolved: dict[str, str] = {}
        """Annotations that could not be resolved, as written."""
        written: dict[str, Any] = dict(inspect.get_annotations(inspect.unwrap(function)))
        try:
            self._hints = get_type_hints(function, include_extras=True)
        except Exception:  # noqa: BLE001 - whatever an annotation raises when it is looked at
            self._hints = {name: self._resolved(function, name, text) for name, text in written.items()}

    def __getitem__(self, name: str) -> Any:
        return self._hints.get(name, Any)

    def _resolved(self, function: Callable[..., Any], name: str, annotation: Any) -> Any:
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, getattr(inspect.unwrap(function), "__globals__", {}))  # noqa: S307 - as get_type_hints does
        except Exception:  # noqa: BLE001
            self.unresolved[name] = annotation
            return Any


class _Reading:
    """One annotation being read, with what type variables stand for in it."""

    def __init__(self, variables: Mapping[Any, Any]) -> None:
        self._variables = variables

    def value(self, annotation: Any) -> Value:
        annotation = self._unwrapped(annotation)
        if annotation is None:
            return ATOMS[type(None)]
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Union or origin is types.UnionType:
            return self._union(arguments)
        if origin is Literal:
            return literal_value(arguments)
        if isinstance(origin or annotation, type):
            return self._of_class(annotation, cast("type[Any]", origin or annotation), arguments)
        return ANY

    def _unwrapped(self, annotation: Any) -> Any:
        while True:
            if get_origin(annotation) is Annotated:
                annotation = annotation.__origin__
            elif isinstance(annotation, NewType):
                annotation = annotation.__supertype__
            elif isinstance(annotation, TypeVar):
                annotation = self._variables.get(annotation, annotation.__bound__ or Any)
            elif (
                type(annotation).__name__ == "TypeAliasType" or type(get_origin(annotation)).__name__ == "TypeAliasType"
            ):
                annotation = getattr(annotation, "__value__", Any)
            elif str(get_origin(annotation)).rpartition(".")[2] in ("Required", "NotRequired", "ReadOnly", "Final"):
                (annotation,) = get_args(annotation)
            else:
                return Any if isinstance(annotation, str | ForwardRef) else annotation

    def _union(self, arguments: tuple[Any, ...]) -> Value:
        members = [self.value(each) for each in arguments]
        if any(member is ANY for member in members):
            return ANY
        if all(type(member) is Atom for member in members):
            atoms = cast("list[Atom]", members)
            kinds = tuple(dict.fromkeys(kind for atom in atoms for kind in atom.types))
            return Atom(" or ".join(atom.expected for atom in atoms), kinds, max(atom.rank for atom in atoms))
        none = ATOMS[type(None)]
        rest = [member for member in members if member is not none]
        inner = rest[0] if len(rest) == 1 else OneOf(rest)
        return inner if len(rest) == len(members) else Optional(inner)

    def _of_class(self, annotation: Any, kind: type[Any], arguments: tuple[Any, ...]) -> Value:
        if kind in ATOMS:
            return ATOMS[kind]
        if kind in _SEQUENCES:
            kinds, make = _SEQUENCES[kind]
            return ItemsOf(_shown(annotation), self._argument(arguments, 0), kinds, make)
        if kind is tuple:
            return self._tuple(annotation, arguments)
        if kind in _MAPPINGS:
            return DictOf(_shown(annotation), self._argument(arguments, 0), self._argument(arguments, 1))
        if issubclass(kind, enum.Enum):
            return enum_value(kind)
        return text_value(kind) or self._of_users_class(annotation, kind, arguments)

    def _of_users_class(self, annotation: Any, kind: type[Any], arguments: tuple[Any, ...]) -> Value:
        inner = _Reading(dict(zip(getattr(kind, "__parameters__", ()), map(self._filled, arguments), strict=False)))
        hints = partial(_class_hints, kind)
        if issubclass(kind, msgspec.Struct):
            return StructOf(kind, annotation, value_of)
        if "pydantic" in sys.modules and hasattr(kind, "model_validate_json"):
            return ModelOf(kind)
        if is_typeddict(kind):
            return TypedDictOf(kind, hints, inner.value)
        if hasattr(kind, "_fields") and tuple in kind.__mro__:
            known = _class_hints(kind)
            names = cast("tuple[str, ...]", getattr(kind, "_fields"))  # noqa: B009 - of a NamedTuple
            return TupleOf(kind.__name__, [inner.value(known.get(name, Any)) for name in names], kind)
        if is_dataclass(kind):
            return DataclassOf(kind, hints, inner.value)
        return ANY

    def _filled(self, argument: Any) -> Any:
        return self._variables.get(argument, argument) if isinstance(argument, TypeVar) else argument

    def _tuple(self, annotation: Any, arguments: tuple[Any, ...]) -> Value:
        if not arguments:
            return ItemsOf("tuple", ANY, (tuple,), tuple)
        if len(arguments) == 2 and arguments[1] is ...:
            return ItemsOf(_shown(annotation), self.value(arguments[0]), (tuple,), tuple)
        return TupleOf(_shown(annotation), [self.value(each) for each in arguments if each != ()])

    def _argument(self, arguments: tuple[Any, ...], at: int) -> Value:
        return self.value(arguments[at]) if len(arguments) > at else ANY


def _class_hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - a field that only a type checker can resolve: those travel as they are
        return dict.fromkeys(inspect.get_annotations(kind), Any)


def _shown(annotation: Any) -> str:
    """An annotation as an error shows it.

    >>> from datetime import datetime
    >>> _shown(list[datetime]), _shown(dict)
    ('list[datetime]', 'dict')
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return getattr(annotation, "__name__", str(annotation))
    inner = ", ".join("..." if each is ... else _shown(each) for each in arguments)
    return f"{getattr(origin, '__name__', str(origin))}[{inner}]"
