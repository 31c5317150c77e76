"""Whatever is done to the audit behind relevo's back is found, and the rows are named."""

from typing import Any

import pytest
from sqlalchemy import delete, insert, update

from relevo.work.store.audit_chain import COLUMNS, entry_hash
from relevo.work.store.tables import audit, audit_chains
from tests.audit.conftest import Record

OTHER: dict[str, Any] = {
    "tenant_id": 99,
    "scope_id": 99,
    "queue_id": 99,
    "at": 1,
    "chain_no": 99,
    "chain": "0" * 26,
    "hash": "0" * 64,
}


async def test_an_audit_that_nobody_touched_is_sound(record: Record) -> None:
    assert await record.found() == []


@pytest.mark.parametrize("column", COLUMNS)
async def test_an_edit_of_this_column_is_found(record: Record, column: str) -> None:
    row = record.chain[3]
    changed = OTHER.get(column, "other")
    assert row[column] != changed
    await record.execute(update(audit).where(audit.c.id == row["id"]).values({column: changed}))
    assert await record.found() == [("edited", row["id"])]


@pytest.mark.parametrize("column", ["chain", "chain_no", "hash"])
async def test_an_edit_of_the_links_is_found(record: Record, column: str) -> None:
    row = record.chain[3]
    await record.execute(update(audit).where(audit.c.id == row["id"]).values({column: OTHER[column]}))
    assert row["id"] in {entry_id for _, entry_id in await record.found()}


async def test_a_row_taken_out_of_its_chain_is_found(record: Record) -> None:
    row = record.chain[3]
    await record.execute(update(audit).where(audit.c.id == row["id"]).values(chain=None, chain_no=None, hash=None))
    assert await record.found() == [("unchained", row["id"]), ("missing", record.chain[4]["id"])]


@pytest.mark.parametrize("column", ["before", "after", "correlation_id"])
async def test_a_value_that_is_taken_away_is_found(record: Record, column: str) -> None:
    row = next(row for row in record.rows if row[column] is not None)
    await record.execute(update(audit).where(audit.c.id == row["id"]).values({column: None}))
    assert await record.found() == [("edited", row["id"])]


async def test_an_edit_with_its_hash_made_anew_is_found_in_the_row_that_follows(record: Record) -> None:
    before, row, following = record.chain[2:5]
    changed = {**row, "actor": "nobody"}
    forged = entry_hash(row["chain"], row["chain_no"], before["hash"], tuple(changed[name] for name in COLUMNS))
    await record.execute(update(audit).where(audit.c.id == row["id"]).values(actor="nobody", hash=forged))
    assert await record.found() == [("edited", following["id"])]


async def test_a_removed_row_is_found_and_its_neighbours_are_named(record: Record) -> None:
    before, row, following = record.chain[2:5]
    await record.execute(delete(audit).where(audit.c.id == row["id"]))
    (finding,) = await record.findings()
    assert (finding.kind, finding.number, finding.id) == ("missing", row["chain_no"], following["id"])
    assert f"between entries {before['id']} and {following['id']}" in finding.detail


async def test_removed_first_rows_are_found(record: Record) -> None:
    await record.execute(delete(audit).where(audit.c.id.in_([row["id"] for row in record.chain[:2]])))
    assert await record.found() == [("missing", record.chain[2]["id"])]


async def test_a_removed_end_is_found(record: Record) -> None:
    await record.execute(delete(audit).where(audit.c.id == record.chain[-1]["id"]))
    assert await record.found() == [("cut_off", record.chain[-2]["id"])]


async def test_an_audit_without_any_rows_is_found(record: Record) -> None:
    await record.execute(delete(audit))
    assert [kind for kind, _ in await record.found()].count("cut_off") >= 2


async def test_a_removed_end_with_its_head_moved_back_is_found_by_heads_that_were_kept(record: Record) -> None:
    *_, last, end = record.chain
    moved = {"last_no": last["chain_no"], "last_hash": last["hash"]}
    its_head = update(audit_chains).where(audit_chains.c.chain == end["chain"])
    await record.execute(delete(audit).where(audit.c.id == end["id"]), its_head.values(moved))
    assert await record.found(known={end["chain"]: (end["chain_no"], end["hash"])}) == [("cut_off", last["id"])]


async def test_a_removed_chain_is_found_by_the_one_that_began_after_it(record: Record) -> None:
    gone = record.chain[0]["chain"]
    await record.execute(
        delete(audit).where(audit.c.chain == gone), delete(audit_chains).where(audit_chains.c.chain == gone)
    )
    assert [kind for kind, _ in await record.found()] == ["chain_missing"]


async def test_a_removed_head_is_found(record: Record) -> None:
    await record.execute(delete(audit_chains).where(audit_chains.c.chain == record.chain[0]["chain"]))
    assert "unknown_chain" in {kind for kind, _ in await record.found()}


@pytest.mark.parametrize("column", ["began_after", "last_no", "last_hash", "cut_no", "cut_hash"])
async def test_an_edit_of_a_head_is_found(record: Record, column: str) -> None:
    changed = {"began_after": '[["x",1,"y"]]', "last_no": 2, "last_hash": "0" * 64, "cut_no": 2, "cut_hash": "0" * 64}
    values = {column: changed[column]} | ({"cut_no": 2} if column == "cut_hash" else {})
    chain = record.chain[0]["chain"]
    await record.execute(update(audit_chains).where(audit_chains.c.chain == chain).values(values))
    assert await record.found() != []


async def test_an_inserted_row_in_no_chain_is_found(record: Record) -> None:
    row = {**record.chain[0], "id": 1_000_000, "chain": None, "chain_no": None, "hash": None}
    await record.execute(insert(audit).values(row))
    assert await record.found() == [("unchained", 1_000_000)]


async def test_a_copy_of_a_row_is_found(record: Record) -> None:
    await record.execute(insert(audit).values({**record.chain[1], "id": 1_000_000}))
    assert await record.found() == [("edited", 1_000_000)]


async def test_a_row_added_at_the_end_of_a_chain_is_found(record: Record) -> None:
    last = record.chain[-1]
    row: dict[str, Any] = {**last, "id": 1_000_000, "chain_no": last["chain_no"] + 1}
    row["hash"] = entry_hash(row["chain"], row["chain_no"], last["hash"], tuple(row[name] for name in COLUMNS))
    await record.execute(insert(audit).values(row))
    assert await record.found() == [("beyond_head", 1_000_000)]


async def test_a_row_of_a_chain_of_its_own_is_found(record: Record) -> None:
    row = {**record.chain[0], "id": 1_000_000, "chain": "Z" * 26, "chain_no": 1, "hash": "0" * 64}
    await record.execute(insert(audit).values(row))
    assert await record.found() == [("unknown_chain", 1_000_000)]


async def test_two_rows_that_changed_places_are_found(record: Record) -> None:
    one, other = record.chain[2]["id"], record.chain[3]["id"]
    await record.execute(
        *(
            update(audit).where(audit.c.id == was).values(id=now)
            for was, now in ((one, 10**6), (other, one), (10**6, other))
        )
    )
    assert {one, other} & {entry_id for _, entry_id in await record.found()}


async def test_two_rows_that_changed_what_they_say_are_found(record: Record) -> None:
    one, other = record.chain[2], record.chain[3]
    said = {name: (one[name], other[name]) for name in COLUMNS}
    await record.execute(
        update(audit).where(audit.c.id == one["id"]).values({name: pair[1] for name, pair in said.items()}),
        update(audit).where(audit.c.id == other["id"]).values({name: pair[0] for name, pair in said.items()}),
    )
    assert await record.found() == [("edited", one["id"]), ("edited", other["id"])]
