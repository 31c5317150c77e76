"""Server and client speak of the same things: every operation has a method, every good answer is read without a loss."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest

from relevo.client import Page
from relevo.client.request import Call
from tests.client.recorded import address, methods, recorded
from tests.support.room import Room
from tests.support.walk import operations_of, walked

WITHOUT_A_METHOD = {
    "GET /v1/audit/export": "a file of lines, which `relevo audit export` and every HTTP client write",
    "GET /v1/scopes/{}/events": "not answered once: `events` reads it line by line",
}
"""Operations that no method reads the answer of, and why."""


EMPTY = "GET /v1/scopes/{scope}/stream-watches"
"""There are none without Redis: test_people.py reads some."""


def _address(operation: str) -> str:
    return re.sub(r"\{\w+\}", "{}", operation)


async def test_every_operation_has_a_method_and_every_method_is_an_operation(room: Room) -> None:
    there = {_address(name) for name in await operations_of(room) if " /v1/" in name}
    made = {address(call) for sent in (await recorded()).values() for call in sent}
    assert sorted(made - there) == []
    assert there - made == set(WITHOUT_A_METHOD)


@pytest.mark.whole  # answers to good requests are checked in tests/api/test_schemathesis.py
async def test_every_good_answer_is_read_without_a_loss(room: Room) -> None:
    calls = {address(call): call for sent in (await recorded()).values() for call in sent}
    operations = await operations_of(room)
    answers = await asyncio.to_thread(walked, room, operations)
    assert [name for name, data in answers.items() if data == []] == [EMPTY], "an empty list says nothing of its items"
    problems: list[str] = []
    for name, data in answers.items():
        call = calls.get(_address(name))
        if call is not None and call.returns is not None:
            try:
                read = msgspec.convert(data, _kind(call), strict=True)
            except msgspec.ValidationError as error:
                problems.append(f"{name}: {error}")
                continue
            problems += [f"{name}: {place} is dropped" for place in _dropped(data, msgspec.to_builtins(read), "$")]
    assert problems == []


async def test_the_client_sends_an_idempotency_key_wherever_the_server_takes_one(room: Room) -> None:
    takes = {
        _address(name)
        for name, operation in (await operations_of(room)).items()
        if any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", ()))
    }
    sends = {address(call) for sent in (await recorded()).values() for call in sent if call.once}
    assert sends == takes


def _kind(call: Call[Any]) -> Any:
    return list[get_args(call.returns)[0]] if get_origin(call.returns) is Page else call.returns


def _dropped(sent: Any, read: Any, place: str) -> Iterator[str]:
    """Places of an answer that are not in what was read of it, or are different there."""
    if isinstance(sent, dict) and isinstance(read, dict):
        for name, value in sent.items():  # pyright: ignore[reportUnknownVariableType]
            if name not in read:
                yield f"{place}.{name}"
            else:
                yield from _dropped(value, read[name], f"{place}.{name}")
    elif isinstance(sent, list) and isinstance(read, list):
        for number, (one, other) in enumerate(zip(sent, read, strict=True)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from _dropped(one, other, f"{place}[{number}]")
    elif sent != read:
        yield place


def test_every_method_of_the_client_is_called_by_a_test() -> None:
    called: set[str] = set()
    for file in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in CLIENTS:
                called.add(node.attr)
    assert sorted(set(methods()) - called - {"close", "send"}) == []  # all others send, and every client is closed


CLIENTS = {"client", "desk", "ada", "one", "plain"}
"""What tests here call the clients they use."""


async def test_every_field_of_the_document_is_described(room: Room) -> None:
    document = (await room.ask("GET", "/openapi.json")).json()
    silent = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, told in schema.get("properties", {}).items()
        if not told.get("description")
    ]
    assert silent == []
