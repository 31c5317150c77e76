"""A lake of the form before Delta is brought over where it lies. No JVM here."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false, reportMissingTypeStubs=false

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relevo.errors import LakeIsOld
from relevo.pipeline.connector.landing import events_schema
from relevo.pipeline.lake import migration
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.migration import migrate

NOTES = {"query": "q-1", "batch": 7, "marks": {"s": [5, 0]}, "own": True}


def old_table(root: Path, name: str, days: list[str], notes: dict[str, Any] | None = None) -> None:
    """As relevo wrote it before."""
    folder, partitions = root.joinpath(*name.split(".")), dict[str, Any]()
    for number, day in enumerate(days):
        path = folder / day / f"ab12-{number:04d}.parquet"
        path.parent.mkdir(parents=True)
        row = dict.fromkeys(events_schema().names) | {"_id": f"{number}-0", "queue": "emails"}
        pq.write_table(pa.Table.from_pylist([row], events_schema()), path)
        named = {"path": f"{day}/{path.name}", "rows": 1, "bytes": path.stat().st_size, "added_in": 1}
        partitions[day] = {"files": [named], "changed_in": 1, "covers": []}
    (folder / days[0] / "orphan.parquet").write_bytes(b"")
    (folder / "_manifest").mkdir()
    told = {"format": 1, "table": name, "version": 2, "schema_version": 1, "written_at_ms": 1, "built_from": {}}
    text = json.dumps(told | {"partitions": partitions, "notes": notes or {}})
    (folder / "_manifest" / "v00000002.json").write_text(text)


@pytest.fixture
def old(tmp_path: Path) -> Lake:
    old_table(tmp_path, "bronze.events", ["2026-11-15", "2026-11-16"], NOTES)
    old_table(tmp_path, "gold.usage", ["2026-11-15"])
    return Lake(tmp_path)


def ids(lake: Lake) -> list[str]:
    return sorted(lake.arrow("bronze.events", columns=["_id"])["_id"].to_pylist())


def test_bronze_is_taken_over_without_a_copy_and_the_rest_is_built_again(old: Lake) -> None:
    with pytest.raises(LakeIsOld):
        old.table("bronze.events")
    inodes = {path.stat().st_ino for path in old.root.rglob("ab12-*.parquet") if "bronze" in path.parts}
    done = migrate(old)
    assert (done.tables, done.files, done.rows, done.to_build) == (1, 2, 2, ("gold.usage",))
    assert ids(old) == ["0-0", "1-0"]
    assert {path.stat().st_ino for path in old.root.rglob("*.parquet")} == inodes
    assert old.table("gold.usage").version == 0
    assert migrate(old).tables == 0


def test_the_next_ingest_goes_on_where_the_last_one_stopped(old: Lake) -> None:
    migrate(old)
    assert old.table("bronze.events", "relevo.ingest.q-1").marks["relevo.ingest.q-1"] == 7
    assert old.notes("bronze.events") == {"query": "q-1", "marks": {"s": [5, 0]}, "own": True}


@pytest.mark.parametrize("step", ["_linked", "stats_of", "shutil.rmtree"])
def test_killed_in_the_middle_and_run_again_it_takes_every_row_once(
    old: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        owner, _, name = step.rpartition(".")
        patched.setattr(migration.shutil if owner else migration, name, die)
        with pytest.raises(KeyboardInterrupt):
            migrate(old)
    migrate(old)
    assert ids(old) == ["0-0", "1-0"]
    assert not list(old.root.rglob("orphan.parquet"))
