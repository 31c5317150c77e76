"""All that is wrong with a body, found at once: the decoder stops at the first fault, and nobody likes to repair one by one.

Only looked for when a body was refused, so it costs good requests nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import Raw, UnsetType, structs

from relevo.contract.problems import Fault

MOST = 50
"""Of one body: who has more faults than this has one fault many times."""

_KINDS = (
    (re.compile(r"unknown field"), "UNKNOWN_FIELD"),
    (re.compile(r"missing required field"), "MISSING_FIELD"),
    (re.compile(r"enum value|Invalid value"), "NOT_ONE_OF"),
    (re.compile(r"matching regex"), "BAD_FORMAT"),
    (re.compile(r"of length"), "BAD_LENGTH"),
    (re.compile(r"Expected `\w+` [<>]"), "OUT_OF_RANGE"),
    (re.compile(r"^Expected .* got"), "WRONG_TYPE"),
)

_PARAMETERS = (
    (re.compile("missing"), "MISSING_FIELD"),
    (re.compile("literal|enum"), "NOT_ONE_OF"),
    (re.compile("pattern"), "BAD_FORMAT"),
    (re.compile("too_long|too_short"), "BAD_LENGTH"),
    (re.compile("greater_than|less_than"), "OUT_OF_RANGE"),
    (re.compile("_type$|_parsing$"), "WRONG_TYPE"),
)


def faults_in(value: Any, kind: Any) -> list[Fault]:
    """The faults of a decoded body, measured by the type that it should have.

    >>> from relevo.contract.scopes import ScopeIn
    >>> for fault in faults_in({"slug": "A B", "descripton": "x"}, ScopeIn):
    ...     print(fault.pointer, fault.code, fault.detail)
    #/descripton UNKNOWN_FIELD unknown field `descripton`; did you mean `description`?
    #/slug BAD_FORMAT Expected `str` matching regex '^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$'
    """
    found: list[Fault] = []
    for fault in _faults(value, kind, "#"):
        found.append(fault)
        if len(found) == MOST:
            break
    return found


def code_of(reason: str) -> str:
    """The code of one of the decoder's sentences."""
    return next((code for pattern, code in _KINDS if pattern.search(reason)), "INVALID")


def parameter_fault(where: Sequence[str | int], kind: str, detail: str) -> Fault:
    """A fault of a parameter, as the framework tells it.

    >>> parameter_fault(("query", "limit"), "less_than_equal", "Input should be less than or equal to 500")
    Fault(pointer='query/limit', code='OUT_OF_RANGE', detail='Input should be less than or equal to 500')
    """
    code = next((code for pattern, code in _PARAMETERS if pattern.search(kind)), "INVALID")
    return Fault(pointer="/".join(str(part) for part in where), code=code, detail=detail)


def pointer_of(place: str) -> str:
    """A place as the decoder writes it, as a JSON pointer.

    >>> pointer_of("$.messages[1].tier"), pointer_of("body")
    ('#/messages/1/tier', '#')
    """
    parts = re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", place)
    return "#" + "".join(_step(name or number) for name, number in parts)


def did_you_mean(name: str, known: list[str]) -> str:
    """The field that was perhaps meant, as the end of a sentence; nothing when no name is near."""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _faults(value: Any, kind: Any, pointer: str) -> Iterator[Fault]:
    shape = _shape_of(kind, value)
    match value:
        case dict() if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
            yield from _faults_of_object(cast("dict[str, Any]", value), shape, pointer)
        case dict() if get_origin(shape) is dict:
            names, inner = get_args(shape)
            yield from _refused(dict.fromkeys(cast("dict[str, Any]", value)), _limited(kind, dict[names, Any]), pointer)
            for name, each in cast("dict[str, Any]", value).items():
                yield from _faults(each, inner, pointer + _step(name))
        case list() if get_origin(shape) is list:
            yield from _refused(cast("list[Any]", value), _limited(kind, list[Any]), pointer)
            for place, each in enumerate(cast("list[Any]", value)):
                yield from _faults(each, get_args(shape)[0], f"{pointer}/{place}")
        case _:
            yield from _refused(value, kind, pointer)


def _faults_of_object(value: dict[str, Any], shape: type[msgspec.Struct], pointer: str) -> Iterator[Fault]:
    fields = {field.encode_name: field for field in structs.fields(shape)}
    config = shape.__struct_config__
    known = {*fields, config.tag_field} if config.tag_field else set(fields)
    if config.forbid_unknown_fields:
        for name in value:
            if name not in known:
                missing = [each for each in fields if each not in value]
                detail = f"unknown field `{name[:100]}`{did_you_mean(name, missing or list(fields))}"
                yield Fault(pointer=pointer + _step(name[:100]), code="UNKNOWN_FIELD", detail=detail)
    for name, field in fields.items():
        if name in value:
            yield from _faults(value[name], field.type, pointer + _step(name))
        elif field.required:
            yield Fault(pointer=pointer + _step(name), code="MISSING_FIELD", detail=f"`{name}` is required")


def _refused(value: Any, kind: Any, pointer: str) -> Iterator[Fault]:
    """The decoder's own word on one value that holds no objects of ours."""
    if _holds_raw(kind):
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `")
        code, choices = code_of(reason), get_args(_shape_of(kind, value))
        if code == "NOT_ONE_OF" and choices and all(isinstance(each, str) for each in (value, *choices)):
            reason = f"expected {' or '.join(repr(each) for each in choices)}, got {value[:100]!r}"
        yield Fault(pointer=pointer + pointer_of(place.rstrip("`"))[1:], code=code, detail=reason)


def _shape_of(kind: Any, value: Any) -> Any:
    """What a value of this kind is measured by: without its limits, and of a union the member that fits it."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) not in (Union, UnionType):
        return kind
    members = [_shape_of(each, value) for each in get_args(kind) if each not in (type(None), UnsetType)]
    objects = [each for each in members if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if isinstance(value, dict) and len(objects) > 1:
        tagged = cast("dict[str, Any]", value)
        return next((each for each in objects if tagged.get(_tag_field(each)) == each.__struct_config__.tag), kind)
    return members[0] if len(members) == 1 else kind


def _limited(kind: Any, shape: Any) -> Any:
    """Another shape with the limits of this kind: how many items there may be, whatever they are."""
    while get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each not in (type(None), UnsetType))
    return Annotated[shape, *kind.__metadata__] if get_origin(kind) is Annotated else shape


def _tag_field(shape: type[msgspec.Struct]) -> str:
    return shape.__struct_config__.tag_field or ""


def _holds_raw(kind: Any) -> bool:
    if kind is Raw:
        return True
    return get_origin(kind) is not Literal and any(_holds_raw(each) for each in get_args(kind))


def _step(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")
