"""The views that people, BI tools and Spark read: the same columns on every database, and what is in them."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, inspect, select, text

from relevo.work.store.views import VIEWS
from tests.servers.stores import STORES, store_url
from tests.support.desk import emptied
from tests.support.page import ROOT, blocks_of
from tests.support.room import QUEUE, Room, served

Rows = list[dict[str, Any]]


@pytest.fixture(params=STORES)
async def room(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Room]:
    url = store_url(request, str(request.param), tmp_path)
    await emptied(url)
    async with served(url) as room:
        yield room


async def read(room: Room, view: str) -> Rows:
    table = VIEWS[view]
    async with room.work_queues.database.connect() as connection:
        rows = (await connection.execute(select(table).order_by(table.columns[0]))).mappings().all()
    return [dict(row) for row in rows]


async def test_every_view_has_the_columns_that_are_promised(room: Room) -> None:
    def columns(connection: Connection) -> dict[str, list[str]]:
        known = inspect(connection)
        return {name: [each["name"] for each in known.get_columns(name)] for name in known.get_view_names()}

    async with room.work_queues.database.connect() as connection:
        found = await connection.run_sync(columns)
    promised = {table.name: [column.name for column in table.columns] for table in VIEWS.values()}
    assert {name: found.get(name) for name in promised} == promised
    assert [name for name in found if name.startswith("relevo_") and name not in promised] == []


async def test_a_message_is_seen_by_names_and_words(room: Room) -> None:
    first = await room.publish(body={"n": 1}, priority_tier="high", labels={"a": "b"}, message_type="invoice")
    second = await room.publish()
    rows = await read(room, "messages")
    assert [row["id"] for row in rows] == [first, second]
    row = rows[0]
    assert (row["tenant"], row["scope"], row["queue"], row["origin_queue"]) == ("acme", "billing", "invoices", None)
    assert (row["state"], row["priority_tier"], row["message_type"]) == ("pending", "high", "invoice")
    assert (row["labels"], row["body"], row["attempts"]) == ('{"a":"b"}', '{"n":1}', 0)
    assert "claim_token" not in row
    assert await read(room, "archive") == []


async def test_an_archived_message_is_in_the_other_view(room: Room) -> None:
    message_id = await room.publish()
    await _complete(room)
    await _archive(room, message_id)
    assert await read(room, "messages") == []
    (row,) = await read(room, "archive")
    assert (row["id"], row["state"], row["queue"]) == (message_id, "completed", "invoices")
    assert row["archived_at"] >= row["finished_at"] >= row["created_at"]


async def test_the_events_are_the_steps_of_each_history(room: Room) -> None:
    kept, archived = await room.publish(), await room.publish()
    await _complete(room)
    await _complete(room)
    await _archive(room, archived)
    rows = sorted(await read(room, "events"), key=lambda row: (row["message_id"], row["place"]))
    for message_id in (kept, archived):
        history = await room.do("GET", f"/v1/scopes/billing/messages/{message_id}/history")
        told = [(step["at"], step["event"], step["actor"], step["detail"]) for step in history]
        seen = [row for row in rows if row["message_id"] == message_id]
        assert [(row["at"], row["event"], row["actor"], row["detail"]) for row in seen] == told
        assert [row["place"] for row in seen] == [1, 2, 3]


async def test_queues_and_usage_count(room: Room) -> None:
    for _ in range(3):
        await room.publish()
    await _complete(room)
    await room.claim(batch_size=1)
    (queue,) = [row for row in await read(room, "queues") if row["queue"] == "invoices"]
    assert (queue["tenant"], queue["scope"], queue["state"], queue["ordering"]) == (
        "acme",
        "billing",
        "active",
        "fifo",
    )
    assert (queue["pending_count"], queue["claimed_count"], queue["delayed_count"], queue["dead_count"]) == (1, 1, 0, 0)
    (usage,) = [row for row in await read(room, "usage") if row["queue_id"] == queue["id"]]
    assert (usage["published"], usage["claims"], usage["completed"]) == (3, 2, 1)
    assert isinstance(usage["handler_ms"], int)
    empty = [row for row in await read(room, "queues") if row["queue"] == "_dead_letter"]
    assert [row["pending_count"] for row in empty] == [0]


async def test_the_audit_is_seen_with_the_chains_it_is_in(room: Room) -> None:
    await room.publish()
    entries, chains = await read(room, "audit"), await read(room, "audit_chains")
    created = next(entry for entry in entries if entry["action"] == "queue.create")
    assert (created["tenant"], created["scope"]) == ("acme", "billing")
    assert created["after"]
    last = {chain["chain"]: (chain["last_no"], chain["last_hash"]) for chain in chains}
    assert all(entry["chain_no"] <= last[entry["chain"]][0] for entry in entries)
    assert {entry["hash"] for entry in entries} >= {digest for _, digest in last.values()}


async def test_the_queries_of_the_page_are_answered(room: Room) -> None:
    for _ in range(2):
        await room.publish()
    queries = [block.text for block in blocks_of(ROOT / "docs" / "views.md") if block.language == "sql"]
    async with room.work_queues.database.connect() as connection:
        (answer,) = [(await connection.execute(text(query))).all() for query in queries]
    assert answer == [("invoices", "pending", 2)]


async def test_a_page_of_messages_needs_no_more_than_that_page(room: Room) -> None:
    """Spark reads them so, however many there are: along the primary key."""
    ids = [await room.publish() for _ in range(5)]
    table = VIEWS["messages"]
    page = select(table.c.id, table.c.queue).where(table.c.id > ids[1]).order_by(table.c.id).limit(2)
    async with room.work_queues.database.connect() as connection:
        assert (await connection.execute(page)).all() == [(ids[2], "invoices"), (ids[3], "invoices")]
        assert (await connection.execute(select(func.max(table.c.id)))).scalar_one() == ids[-1]


async def _complete(room: Room) -> None:
    (claimed,) = await room.claim(batch_size=1)
    token = {"id": claimed["id"], "claim_token": claimed["claim_token"]}
    await room.do("POST", f"{QUEUE}/complete", {"items": [token]})


async def _archive(room: Room, message_id: str) -> None:
    from relevo.work.message.archive import move

    await room.work_queues.transactions.run(lambda transaction: move(transaction, message_id, message_id))
