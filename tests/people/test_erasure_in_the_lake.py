"""What was erased in SQL says nothing in the lake either, whether the lake had it before or gets it after."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from relevo.agents.message_archiver import MessageArchiver
from relevo.contract.messages import NewMessage, Published
from relevo.pipeline.commands.archive import Archive, Archived
from relevo.pipeline.lake.lake import Lake
from relevo.work.review.spec import ReviewSpec, Section
from relevo.work.store.tables import reviews
from tests.people.conftest import relay
from tests.support.desk import SCOPE, Desk

WORD = "Zyxomma-petiolatum"
"""What must not be found again; nothing else here says it."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


async def done_message(desk: Desk, subject: str = "ada") -> str:
    """One that was published and completed, with the word in its body and its result."""
    body = msgspec.Raw(msgspec.json.encode({"says": WORD}))
    new = NewMessage(body=body, labels={"kind": "letter", "subject": subject})
    (outcome,) = await desk.work_queues.messages.publish(desk.caller, SCOPE, "jobs", [new])
    assert isinstance(outcome, Published)
    await desk.settle("complete", await desk.claim(), result=msgspec.Raw(msgspec.json.encode(WORD)))
    return outcome.id


async def archived(desk: Desk, lake: Lake) -> Archived:
    """Everything that is over goes to the archive, and from there to the lake."""
    await relay(desk)
    desk.clock.turn(minutes=61)
    await MessageArchiver(desk.work_queues).work()
    return await Archive(lake, desk.work_queues.database).run(desk.clock() + 1)


def said(lake: Lake) -> str:
    """Everything that any file says, also those that no version of a table names any more."""
    return "".join(str(pq.read_table(file, partitioning=None).to_pylist()) for file in lake.root.rglob("*.parquet"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportArgumentType]


def row_of(lake: Lake, message_id: str) -> dict[str, Any]:
    rows: Any = lake.arrow("bronze.messages")
    (row,) = (row for row in rows.to_pylist() if row["id"] == message_id)
    return row


async def test_a_message_that_had_left_sql_for_the_lake_is_found_by_its_label(desk: Desk, lake: Lake) -> None:
    message_id = await done_message(desk)
    await archived(desk, lake)
    assert WORD in said(lake)
    asked = await desk.work_queues.erasures.start(desk.caller, SCOPE, "ada")
    assert asked.messages == 0  # SQL knows of none any more
    done = await archived(desk, lake)
    assert done.erased.messages >= 1
    assert WORD not in said(lake)
    assert "'ada'" not in said(lake)
    row = row_of(lake, message_id)
    assert (row["body"], row["result"], msgspec.json.decode(row["labels"])) == (None, None, {"kind": "letter"})
    assert row["state"] == "completed"


async def test_a_second_run_finds_nothing_more_to_erase(desk: Desk, lake: Lake) -> None:
    await done_message(desk)
    await archived(desk, lake)
    await desk.work_queues.erasures.start(desk.caller, SCOPE, "ada")
    await archived(desk, lake)
    again = (await archived(desk, lake)).erased
    assert (again.messages, again.reviews, again.events) == (0, 0, 0)


async def test_other_subjects_and_what_came_after_the_erasure_stay(desk: Desk, lake: Lake) -> None:
    other = await done_message(desk, "bob")
    await desk.work_queues.erasures.start(desk.caller, SCOPE, "ada")
    desk.clock.turn(minutes=1)
    later = await done_message(desk)
    await archived(desk, lake)
    for message_id in (other, later):
        assert WORD in row_of(lake, message_id)["body"]


async def test_a_review_that_was_copied_before_says_nothing_any_more(desk: Desk, lake: Lake) -> None:
    message_id = await done_message(desk)
    spec = ReviewSpec(title=f"About {WORD}", context=[Section("body", WORD)])
    row = await desk.review_row(spec, message_id)
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(reviews.insert().values(row | {"finished_at": desk.clock(), "state": "decided"}))
    await archived(desk, lake)
    await desk.work_queues.erasures.start(desk.caller, SCOPE, "ada")
    done = await archived(desk, lake)
    assert done.erased.reviews == 1
    assert WORD not in said(lake)
