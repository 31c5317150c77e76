"""Text is the same only when its bytes are: keys, labels and names that look alike are told apart on every database."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.stores import STORES, store_url
from tests.support.desk import emptied
from tests.support.room import QUEUE, Room, served

ALIKE = ("b", "b ", " b", "B", "é", "e\u0301", "ß", "ss")
"""Alike by the rules of one language or another, or of a database that fills text up with spaces."""
MESSAGES = "/v1/scopes/billing/messages"


@pytest.fixture(params=STORES)
async def room(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Room]:
    url = store_url(request, str(request.param), tmp_path)
    await emptied(url)
    async with served(url) as room:
        yield room


async def test_a_key_with_a_space_behind_it_is_a_key_of_its_own(room: Room) -> None:
    first = await room.publish(idempotency_key="order-1")
    second = await room.publish(idempotency_key="order-1 ")
    assert first != second
    assert await room.publish(idempotency_key="order-1 ") == second
    assert await room.publish(idempotency_key="order-1") == first


async def test_keys_that_look_alike_are_told_apart_in_one_call(room: Room) -> None:
    batch: list[dict[str, Any]] = [{"body": {}, "idempotency_key": key} for key in ALIKE]
    made = await room.do("POST", f"{QUEUE}/messages/batch", {"items": [*batch, *batch]})
    ids = [each["id"] for each in made]
    assert len(set(ids)) == len(ALIKE)
    assert ids[: len(ALIKE)] == ids[len(ALIKE) :]


async def test_labels_that_look_alike_are_found_and_claimed_apart(room: Room) -> None:
    every = await room.publish(labels=dict.fromkeys(ALIKE, "v"))
    by_value = {value: await room.publish(labels={"a": value}) for value in ALIKE}
    for text in ALIKE:
        assert await _found(room, label=f"a={text}") == [by_value[text]]
        assert await _found(room, label=f"{text}=v") == [every]
    for text in reversed(ALIKE):
        assert [each["id"] for each in await room.claim(batch_size=5, labels={"a": text})] == [by_value[text]]


@pytest.mark.parametrize("field", ["message_type", "correlation_id", "source_id", "idempotency_key"])
async def test_what_looks_alike_is_found_apart(room: Room, field: str) -> None:
    ids = {text: await room.publish(**{field: text}) for text in ALIKE}
    for text in ALIKE:
        assert await _found(room, **{field: text}) == [ids[text]]


async def test_what_no_id_can_be_is_not_found_by_it(room: Room) -> None:
    """Ids, slugs and the like are ASCII: whoever asks with anything else has an answer, and no server error."""
    id_of_one = await room.publish(parent_id=await room.publish())
    (child,) = await room.do("GET", MESSAGES, params={"correlation_id": id_of_one})
    assert await _found(room, parent_id=child["parent_id"]) == [id_of_one]
    for text in ("é", f"{id_of_one} ", id_of_one.lower()):
        for where, name in [(MESSAGES, "parent_id"), (MESSAGES, "correlation_id"), ("/v1/audit", "action")]:
            assert await room.do("GET", where, params={name: text}) == []
        assert await room.do("GET", "/v1/audit", params={"request_id": text}) == []
        assert await room.do("GET", "/v1/scopes/billing/dead-letters", params={"correlation_id": text}) == []
        assert await room.problem("GET", f"{MESSAGES}/{text}") == (404, "NOT_FOUND")
        assert await room.problem("GET", f"/v1/scopes/{text}") == (404, "NOT_FOUND")
        assert await room.problem("GET", f"/v1/scopes/billing/queues/{text}") == (404, "NOT_FOUND")


async def _found(room: Room, **wanted: str) -> list[str]:
    return [each["id"] for each in await room.do("GET", MESSAGES, params=wanted)]
