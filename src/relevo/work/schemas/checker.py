"""A compiled JSON Schema. It never leaves this process: references to files and to other hosts are refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import jsonschema_rs
import msgspec

from relevo.errors import BadSchema, SchemaInvalid

MAX_SCHEMA_BYTES = 262_144
MAX_DEPTH = 64
SHOWN = 5
"""Faults named in a refusal; a body with a thousand of them is told of the first few and of their number."""


class Checker:
    """Says whether a body fits, and what is wrong with one that does not.

    >>> order = Checker('{"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}')
    >>> order.faults(b'{"amount": 3}')
    []
    >>> order.faults(b'{"amount": "three"}')
    ['amount: "three" is not of type "integer"']
    """

    __slots__ = ("_validator", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._validator = _compiled(source)

    def fits(self, body: bytes | str | msgspec.Raw) -> bool:
        return self._validator.is_valid(_decoded(body))

    def faults(self, body: bytes | str | msgspec.Raw) -> list[str]:
        found = list(self._described(_decoded(body)))
        more = len(found) - SHOWN
        return found if more <= 0 else [*found[:SHOWN], f"and {more} more"]

    def check(self, body: bytes | str | msgspec.Raw, name: str, version: int) -> None:
        """Raises `SchemaInvalid`, which names the schema and the faults."""
        faults = self.faults(body)
        if faults:
            raise SchemaInvalid(schema=name, version=version, faults="; ".join(faults))

    def _described(self, body: Any) -> Iterator[str]:
        for error in self._validator.iter_errors(body):
            place = ".".join(str(step) for step in error.instance_path)
            message = error.message if len(error.message) <= 200 else error.message[:200] + "…"
            yield f"{place}: {message}" if place else message


@lru_cache(maxsize=1024)
def _compiled(source: str) -> Any:
    if len(source.encode()) > MAX_SCHEMA_BYTES:
        raise BadSchema(reason=f"it is longer than {MAX_SCHEMA_BYTES} bytes")
    try:
        schema = msgspec.json.decode(source)
    except msgspec.DecodeError as error:
        raise BadSchema(reason=f"it is not JSON: {error}") from None
    if _depth(schema) > MAX_DEPTH:
        raise BadSchema(reason=f"it is nested more than {MAX_DEPTH} deep")
    try:
        return jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            validate_formats=True,
            # Patterns run in a time that grows with the text and no faster: a body cannot make us think for hours.
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise BadSchema(reason=str(error).splitlines()[0]) from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside this schema; put it under `$defs`")


def _decoded(body: bytes | str | msgspec.Raw) -> Any:
    return msgspec.json.decode(body)


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        level = [inner for each in level for inner in _inside(each)]
    return deepest


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []
