"""`relevo audit`: sound or not, one story, copies, and cuts; as a user types it."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.clock import Clock
from tests.support.command_line import Said, call
from tests.support.desk import a_desk, open_work_queues


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A database with a little story in it."""
    made = tmp_path / "work.db"
    async with open_work_queues(f"sqlite:///{made}") as work_queues:
        desk = await a_desk(work_queues, Clock())
        await desk.queue()
        await desk.publish(1, correlation_id="order-17")
        await desk.settle("complete", await desk.claim())
        await desk.publish(1, correlation_id="order-18")
    return made


def audit(file: Path, *arguments: str) -> Said:
    return call("audit", *arguments, "--database-url", f"sqlite:///{file}")


def tamper(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()


def test_a_sound_audit_is_said_to_be_so(file: Path) -> None:
    said = audit(file, "verify")
    assert (said.code, said.out) == (0, "intact: 7 entries in 1 chains\n")


def test_an_edit_is_named_and_ends_with_1(file: Path) -> None:
    tamper(file, "UPDATE relevo_store_audit SET actor = 'nobody' WHERE id = 4")
    said = audit(file, "verify")
    assert said.code == 1
    assert "entry 4 is not as it was written" in " ".join(said.out.split())
    assert "1 findings in 7 entries" in said.err


def test_programs_read_findings_as_json(file: Path) -> None:
    tamper(file, "DELETE FROM relevo_store_audit WHERE id = 3")
    said = audit(file, "verify", "--json")
    assert said.code == 1
    assert said.data["sound"] is False
    assert [(each["kind"], each["id"]) for each in said.data["findings"]] == [("missing", 4)]


def test_heads_that_were_kept_tell_of_an_end_that_was_cut_off_with_its_head(file: Path, tmp_path: Path) -> None:
    kept = tmp_path / "heads.json"
    assert audit(file, "heads", "--to", str(kept), "--json").data == json.loads(kept.read_text())
    tamper(file, "DELETE FROM relevo_store_audit WHERE id = 7")
    tamper(
        file,
        "UPDATE relevo_store_audit_chains SET last_no = 6, last_hash = (SELECT hash FROM relevo_store_audit WHERE id = 6)",
    )
    assert audit(file, "verify").code == 0
    assert audit(file, "verify", "--heads", str(kept)).code == 1


def test_a_trace_tells_one_story(file: Path) -> None:
    story = audit(file, "trace", "order-17", "--tenant", "acme", "--json").data
    assert [step["what"] for step in story["steps"] if step["source"] == "message"] == [
        "published",
        "claimed",
        "completed",
    ]
    shown = audit(file, "trace", "order-17", "--tenant", "acme").out
    assert "completed" in shown
    assert "order-18" not in shown


def test_an_export_has_every_entry_with_its_hash(file: Path) -> None:
    lines = [json.loads(line) for line in audit(file, "export").out.splitlines()]
    assert [line["id"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert all(len(line["hash"]) == 64 for line in lines)
    assert [json.loads(line)["id"] for line in audit(file, "export", "--after", "5").out.splitlines()] == [6, 7]


def test_an_export_is_added_to_a_file(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "audit.jsonl"
    audit(file, "export", "--to", str(copy))
    audit(file, "export", "--to", str(copy), "--after", "7")
    assert len(copy.read_text().splitlines()) == 7


def test_a_cut_asks_first_and_is_told_by_the_audit(file: Path) -> None:
    refused = call("audit", "cut", "--before", "2020-01-01", "--database-url", f"sqlite:///{file}", stdin="n\n")
    assert refused.code == 1
    said = audit(file, "cut", "--before", "2020-01-01", "--yes", "--json")
    assert (said.code, said.data) == (0, {"removed": 0})
    assert audit(file, "verify").code == 0


def test_a_moment_that_is_none_is_refused(file: Path) -> None:
    said = audit(file, "cut", "--before", "yesterday", "--yes")
    assert said.code == 1
    assert "2026-01-01" in said.err
