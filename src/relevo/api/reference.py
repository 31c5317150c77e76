"""The OpenAPI document as a page for people needs it: operations by topic, with the types that they take and give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Schema = Mapping[str, Any]


class Piece(NamedTuple):
    """A part of a type's name; `type` is set when it is one that the page describes itself."""

    text: str
    type: str | None = None


class Field(NamedTuple):
    """A parameter, or a field of a type."""

    name: str
    kind: list[Piece]
    limits: str
    needed: bool
    about: str
    where: str = ""
    """Of a parameter: path, query or header."""


class Operation(NamedTuple):
    """One request that can be made."""

    id: str
    method: str
    path: str
    summary: str
    needs_key: bool
    parameters: list[Field]
    body: list[Piece]
    body_fields: list[Field]
    """Where the body is one of the types below."""
    answer: list[Piece]
    good: list[str]
    problems: list[tuple[str, str]]


class Topic(NamedTuple):
    """Operations that belong together."""

    name: str
    about: str
    operations: list[Operation]


class Type(NamedTuple):
    """An object that requests or answers hold."""

    name: str
    about: str
    fields: list[Field]


class Reference(NamedTuple):
    """The whole page."""

    title: str
    version: str
    about: str
    topics: list[Topic]
    types: list[Type]


def reference_of(document: Mapping[str, Any]) -> Reference:
    """What the page shows of an OpenAPI document."""
    topics = {each["name"]: Topic(each["name"], each.get("description", ""), []) for each in document.get("tags", ())}
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, told in operations.items():
            (tag,) = told["tags"]
            topics.setdefault(tag, Topic(tag, "", [])).operations.append(_operation(path, method, told, schemas))
    types = [Type(name, _prose(schema.get("description", "")), _fields(schema)) for name, schema in schemas.items()]
    info = document["info"]
    return Reference(info["title"], info["version"], info.get("description", ""), list(topics.values()), types)


def _operation(path: str, method: str, told: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Operation:
    answers: Mapping[str, Any] = told["responses"]
    good = sorted(status for status in answers if status.startswith("2"))
    content = told.get("requestBody", {}).get("content", {})
    body = [piece for each in content.values() for piece in kind_of(each.get("schema", {}))]
    return Operation(
        id=told["operationId"],
        method=method.upper(),
        path=path,
        summary=told.get("summary", ""),
        needs_key="security" in told,
        parameters=[_parameter(each) for each in told.get("parameters", ())],
        body=body,
        body_fields=_fields(schemas[body[0].type]) if len(body) == 1 and body[0].type is not None else [],
        answer=_answer(answers[good[0]]) if good else [],
        good=good,
        problems=[(status, each["description"]) for status, each in sorted(answers.items()) if status not in good],
    )


def _answer(response: Mapping[str, Any]) -> list[Piece]:
    """What is answered; of the envelope only the data."""
    for kind, content in response.get("content", {}).items():
        schema: Schema = content.get("schema", {})
        if "data" in schema.get("properties", {}):
            return kind_of(schema["properties"]["data"])
        return kind_of(schema) if schema else [Piece(kind)]
    return []


def _parameter(told: Mapping[str, Any]) -> Field:
    schema: Schema = told.get("schema", {})
    about = told.get("description", "") or _about(schema)
    return Field(told["name"], kind_of(schema), limits_of(schema), told.get("required", False), about, told["in"])


def _fields(schema: Schema) -> list[Field]:
    needed = schema.get("required", ())
    return [
        Field(name, kind_of(each), limits_of(each), name in needed, _about(each))
        for name, each in schema.get("properties", {}).items()
    ]


def _about(schema: Schema) -> str:
    """Its description; of one that may be left out, that of the type itself."""
    told = [schema, *schema.get("anyOf", ())]
    return next((each["description"] for each in told if "description" in each), "")


def kind_of(schema: Schema) -> list[Piece]:
    """The name of a type.

    >>> "".join(
    ...     piece.text
    ...     for piece in kind_of({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}})
    ... )
    'list of string or null'
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return [Piece(name, name)]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return _joined(kind_of(each) for each in schema[word])
    if "enum" in schema:
        return [Piece(" | ".join(f'"{each}"' if isinstance(each, str) else str(each) for each in schema["enum"]))]
    if "const" in schema:
        return [Piece(f'"{schema["const"]}"')]
    kind = schema.get("type")
    if kind == "array":
        return [Piece("list of "), *kind_of(schema.get("items", {}))]
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return [Piece("object of "), *kind_of(schema["additionalProperties"])]
    if kind == "string" and "format" in schema:
        return [Piece(f"string ({schema['format']})")]
    return [Piece("any JSON" if kind is None else str(kind))]


def limits_of(schema: Schema) -> str:
    """Within what it has to be, and what it is when it is left out.

    >>> limits_of({"type": "integer", "minimum": 1, "maximum": 1000, "default": 1})
    '1 to 1,000, default 1'
    """
    inner = [schema, *(each for word in ("anyOf", "oneOf") for each in schema.get(word, ()))]
    said: list[str] = []
    for each in inner:
        low, high = each.get("minimum"), each.get("maximum")
        if low is not None and high is not None:
            said.append(f"{low:,} to {high:,}")
        elif low is not None or high is not None:
            said.append(f"from {low:,}" if high is None else f"up to {high:,}")
        if "maxLength" in each:
            said.append(f"up to {each['maxLength']:,} characters")
        if "maxItems" in each:
            said.append(f"up to {each['maxItems']:,} of them")
    default = schema.get("default")
    if default is not None and default not in ("", [], {}):
        said.append(f"default {str(default).lower() if isinstance(default, bool) else default}")
    return ", ".join(dict.fromkeys(said))


def _joined(kinds: Iterable[list[Piece]]) -> list[Piece]:
    pieces: list[Piece] = []
    for kind in kinds:
        pieces += [Piece(" or "), *kind] if pieces else kind
    return pieces


def _prose(text: str) -> str:
    return " ".join(text.split())
