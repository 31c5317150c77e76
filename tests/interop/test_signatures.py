"""Every public name of chasquimq exists in relevo and can be called in every way that chasquimq's can be called."""

import importlib
import inspect
from collections.abc import Coroutine
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_origin, get_type_hints

import pytest

import relevo

pytestmark = pytest.mark.interop

_theirs: Any = importlib.import_module("chasquimq")  # by name: the types are checked where it is not installed, too
NAMES: list[str] = [name for name in _theirs.__all__ if hasattr(relevo, name)]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(_theirs, name))]
ERRORS = [name for name in CLASSES if issubclass(getattr(_theirs, name), Exception)]
METHODS = [
    (name, member)
    for name in CLASSES
    if name not in ERRORS
    for member in sorted(dir(getattr(_theirs, name)))
    if not member.startswith("_") and callable(getattr(getattr(_theirs, name), member))
]
VALUES = [
    (name, member)
    for name in CLASSES
    if name not in ERRORS
    for member in sorted(dir(getattr(_theirs, name)))
    if not member.startswith("_") and isinstance(getattr(getattr(_theirs, name), member), property)
]

_BY_KEYWORD = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def assert_takes_every_call(theirs: Any, ours: Any) -> None:
    """Ours may have more parameters, but only optional ones; where theirs can be given, ours can, with the same default."""
    wanted, offered = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
    places = [name for name, each in offered.items() if each.kind in _BY_PLACE]
    for place, (name, parameter) in enumerate(wanted.items()):
        if name == "self":
            continue
        ours_of_it = offered.get(name)
        assert ours_of_it is not None, f"{name} is missing"
        if parameter.kind in _BY_KEYWORD:
            assert ours_of_it.kind in _BY_KEYWORD, f"{name} cannot be given by name"
        if parameter.kind in _BY_PLACE:
            assert places[place] == name, f"{name} stands elsewhere"
        if parameter.default is not ...:  # how an extension module says "not a literal"
            assert ours_of_it.default == parameter.default, f"the default of {name} differs"
    for name, extra in offered.items():
        optional = extra.default is not inspect.Parameter.empty
        assert name in wanted or optional, f"{name} is ours alone and required"


def test_no_public_name_is_missing() -> None:
    assert [name for name in _theirs.__all__ if name not in NAMES] == []


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in ERRORS])
def test_the_constructor_takes_every_call(name: str) -> None:
    assert_takes_every_call(getattr(_theirs, name), getattr(relevo, name))


@pytest.mark.parametrize(("name", "method"), METHODS, ids=lambda part: part)
def test_the_method_takes_every_call(name: str, method: str) -> None:
    assert_takes_every_call(getattr(getattr(_theirs, name), method), getattr(getattr(relevo, name), method))


@pytest.mark.parametrize(("name", "attribute"), VALUES, ids=lambda part: part)
def test_the_property_is_one(name: str, attribute: str) -> None:
    assert isinstance(getattr(getattr(relevo, name), attribute), property)


@pytest.mark.parametrize("name", [name for name in CLASSES if is_dataclass(getattr(_theirs, name))])
def test_the_dataclass_has_the_same_fields_first_and_the_same_defaults(name: str) -> None:
    theirs, ours = fields(getattr(_theirs, name)), fields(getattr(relevo, name))
    assert [(each.name, each.default) for each in ours][: len(theirs)] == [(each.name, each.default) for each in theirs]
    assert all(each.default is not MISSING or each.default_factory is not MISSING for each in ours[len(theirs) :])


@pytest.mark.parametrize("name", [name for name in CLASSES if is_dataclass(getattr(_theirs, name))])
def test_the_dataclass_is_as_frozen_as_theirs(name: str) -> None:
    theirs: Any = getattr(_theirs, name)
    ours: Any = getattr(relevo, name)
    assert ours.__dataclass_params__.frozen == theirs.__dataclass_params__.frozen
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_caught_by_what_catches_theirs(name: str) -> None:
    bases = set(getattr(_theirs, name).__mro__) - {getattr(_theirs, name)}
    assert bases <= set(getattr(relevo, name).__mro__)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (name, method)
        for name, method in METHODS
        if inspect.iscoroutinefunction(getattr(getattr(_theirs, name), method))
    ],
    ids=lambda part: part,
)
def test_a_coroutine_of_theirs_can_be_awaited_in_ours(name: str, method: str) -> None:
    ours = getattr(getattr(relevo, name), method)
    if not inspect.iscoroutinefunction(ours):
        # These return a coroutine that was made by hand: what a task, a gathering and asyncio.run
        # do with those is in test_drop_in.py and in conformance/test_add.py.
        returned = get_type_hints(ours)["return"]
        assert issubclass(get_origin(returned) or returned, Coroutine)


@pytest.mark.parametrize("context", ["Queue", "Worker"])
def test_what_can_be_entered_can_be_entered_in_ours(context: str) -> None:
    for method in ("__aenter__", "__aexit__"):
        assert inspect.iscoroutinefunction(getattr(getattr(relevo, context), method))


def test_the_version_is_told() -> None:
    assert isinstance(relevo.version(), str)
