"""Tables as Delta keeps them: versions that appear whole or not at all, and who gives way to whom. No JVM here."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false, reportMissingTypeStubs=false

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from relevo.errors import CredentialsInAddress, LakeChanged, LakeIsOld, LakeTooNew, NoLake, SqlRefused, StorageUnknown
from relevo.pipeline.lake.delta import SCHEMA_MARK
from relevo.pipeline.lake.lake import Lake, Staged
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.lake.tables import ALL
from relevo.pipeline.lake.tables_page import page
from relevo.pipeline.lake.upkeep import compact, expire, vacuum

USAGE = "gold.usage"
DAY = 20_000
KEY = "2024-10-04"
MIDNIGHT = datetime(2024, 10, 4, tzinfo=UTC)


def rows(*messages: int, queue: str = "emails", **more: Any) -> Any:
    count = len(messages)
    columns: Mapping[str, Any] = {
        "day": pa.array([MIDNIGHT] * count, pa.timestamp("us", tz="UTC")),
        "queue": [queue] * count,
        "messages": pa.array(messages, pa.int64()),
        **{name: [value] * count for name, value in more.items()},
    }
    return pa.table(columns)


def staged(lake: Lake, *messages: int, day: int = DAY, **more: Any) -> Staged:
    return lake.stage_arrow(USAGE, {day: rows(*messages, **more)})


def add(lake: Lake, *messages: int, **more: Any) -> None:
    lake.commit(staged(lake, *messages, **more), instead=False)


def told(lake: Lake) -> list[int]:
    found = lake.arrow(USAGE, columns=["messages"])
    return [] if found is None else sorted(found["messages"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_a_table_nobody_wrote_has_version_zero_and_no_rows(lake: Lake) -> None:
    assert (lake.table(USAGE).version, lake.table(USAGE).rows, told(lake)) == (0, 0, [])


def test_a_lake_says_how_to_begin_one(tmp_path: Path) -> None:
    with pytest.raises(NoLake, match="relevo pipeline ingest"):
        Lake(tmp_path / "none").must_exist()


def test_any_reader_of_delta_reads_the_table_with_its_types_and_comments(lake: Lake) -> None:
    add(lake, 1, 2)
    table = DeltaTable(str(lake.root / "gold/usage"))
    schema = {column.name: column for column in table.schema().fields}
    assert schema["messages"].metadata == {"comment": "jobs that came, or messages that were sent"}
    assert table.metadata().name == USAGE
    assert table.metadata().partition_columns == ["date"]
    found = table.to_pyarrow_table().to_pylist()
    assert [(row["messages"], row["date"].isoformat(), row["day"]) for row in found] == [
        (1, KEY, MIDNIGHT),
        (2, KEY, MIDNIGHT),
    ]


def test_added_files_stand_beside_the_old_ones_and_replaced_ones_instead(lake: Lake) -> None:
    add(lake, 1)
    add(lake, 2)
    assert told(lake) == [1, 2]
    lake.commit(staged(lake, 3), instead=True)
    assert told(lake) == [3]
    assert lake.log(USAGE).at(2).rows == 2  # the version before is still there to be read


def test_what_came_after_a_version_is_known_by_file_by_partition_and_by_day(lake: Lake) -> None:
    add(lake, 1)
    seen = lake.table(USAGE).version
    lake.commit(staged(lake, 2, day=DAY + 1), instead=False)
    changes = lake.changes(USAGE, seen)
    assert [file.rows for file in changes.added] == [1]
    assert changes.keys == {"2024-10-05"}
    assert lake.changes(USAGE, lake.table(USAGE).version).keys == frozenset()


def test_where_the_log_does_not_reach_back_everything_counts_as_changed(lake: Lake) -> None:
    add(lake, 1)
    add(lake, 2)
    DeltaTable(str(lake.root / "gold/usage")).create_checkpoint()
    (lake.root / f"gold/usage/_delta_log/{1:020d}.json").unlink()
    changes = lake.changes(USAGE, 0)
    assert (changes.all_of_it, len(changes.added)) == (True, 2)


# --- who gives way -------------------------------------------------------------------------------------------------------


def test_appends_never_conflict(lake: Lake) -> None:
    first, second = staged(lake, 1), staged(lake, 2)
    base = lake.table(USAGE)
    lake.commit(first, instead=False, base=base)
    lake.commit(second, instead=False, base=base)
    assert told(lake) == [1, 2]


def test_of_two_that_replace_one_partition_the_second_is_told_and_changes_nothing(lake: Lake) -> None:
    first, second = staged(lake, 1), staged(lake, 2)
    base = lake.table(USAGE)
    lake.commit(first, instead=True, base=base)
    with pytest.raises(LakeChanged, match=r"same rows of table gold.usage first .* run it again"):
        lake.commit(second, instead=True, base=base)
    assert told(lake) == [1]


def test_of_two_builds_from_one_source_the_older_never_wins(lake: Lake) -> None:
    """Other partitions, and yet a conflict: the second build knows less of the source than the first one took."""
    newer, older = staged(lake, 1), staged(lake, 2, day=DAY + 1)
    base = lake.table(USAGE)
    lake.commit(newer, instead=True, built_from={"silver.counts": 6}, base=base)
    with pytest.raises(LakeChanged):
        lake.commit(older, instead=True, built_from={"silver.counts": 5}, base=base)
    assert lake.taken(USAGE, "silver.counts") == 6


def test_a_batch_that_comes_twice_is_refused_by_its_number(lake: Lake) -> None:
    base = lake.table(USAGE, "batch")
    lake.commit(staged(lake, 1), instead=False, marks={"batch": 0}, base=base)
    with pytest.raises(LakeChanged):
        lake.commit(staged(lake, 1), instead=False, marks={"batch": 0}, base=base)
    assert (told(lake), lake.table(USAGE, "batch").marks["batch"]) == ([1], 0)


def test_a_replacement_removes_what_a_compaction_made_of_its_files_meanwhile(lake: Lake) -> None:
    """`deltalake` alone lets the rows stand twice: in the merged file and in the new one."""
    for number in range(3):
        add(lake, number)
    new, base = staged(lake, 7), lake.table(USAGE)
    assert compact(lake, USAGE, least=2).after == 1
    lake.commit(new, instead=True, base=base)
    assert told(lake) == [7]


def test_a_compaction_gives_way_to_a_replacement_and_leaves_no_file_behind(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from relevo.pipeline.lake import files

    for number in range(3):
        add(lake, number)
    merged = files.merged

    def slowly(*arguments: Any) -> Any:
        made = merged(*arguments)
        lake.commit(staged(lake, 7), instead=True)
        return made

    monkeypatch.setattr(files, "merged", slowly)
    assert compact(lake, USAGE, least=2).after == 0
    assert told(lake) == [7]
    there = {path.relative_to(lake.root / "gold/usage").as_posix() for path in lake.root.rglob("*.parquet")}
    assert len(there) == 4  # three that were replaced, and the one that replaced them


def test_an_append_in_the_middle_of_a_compaction_is_kept(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from relevo.pipeline.lake import files

    for number in range(3):
        add(lake, number)
    merged = files.merged

    def slowly(*arguments: Any) -> Any:
        add(lake, 9)
        return merged(*arguments)

    monkeypatch.setattr(files, "merged", slowly)
    assert (compact(lake, USAGE, least=2).after, told(lake)) == (1, [0, 1, 2, 9])


# --- upkeep --------------------------------------------------------------------------------------------------------------


def test_merged_files_are_not_taken_for_new_rows(lake: Lake) -> None:
    for number in range(4):
        add(lake, number)
    seen = lake.table(USAGE).version
    compact(lake, USAGE, least=2)
    assert lake.changes(USAGE, seen).added == ()
    # Whoever has not read them yet finds them where they were.
    assert sum(file.rows for file in lake.changes(USAGE, 0).added) == 4
    assert told(lake) == [0, 1, 2, 3]


def test_compaction_goes_by_size_and_does_not_write_large_files_again(lake: Lake) -> None:
    add(lake, *range(400_000), queue="large")
    (large,) = lake.table(USAGE).files()
    for number in range(8):
        add(lake, number)
    done = compact(lake, USAGE, target_bytes=large.bytes)
    assert (done.before, done.after) == (8, 1)
    assert large.path in {file.path for file in lake.table(USAGE).files()}
    assert compact(lake, USAGE, target_bytes=large.bytes).before == 0


def test_vacuum_leaves_alone_what_was_staged_yesterday_and_what_readers_may_still_read(lake: Lake) -> None:
    add(lake, 1)
    old = lake.arrow_file(USAGE, lake.table(USAGE).files()[0].path)
    waiting = staged(lake, 2)
    lake.commit(staged(lake, 3), instead=True)
    assert vacuum(lake, USAGE) == 0
    assert old.num_rows == 1
    lake.commit(waiting, instead=False)
    assert told(lake) == [2, 3]


def test_vacuum_deletes_what_was_removed_longer_ago_than_is_kept(lake: Lake) -> None:
    add(lake, 1)
    lake.commit(staged(lake, 2), instead=True)
    staged(lake, 3)
    assert vacuum(lake, USAGE, kept_days=0) == 2
    assert (told(lake), len(list(lake.root.rglob("*.parquet")))) == ([2], 1)


def test_old_days_go_on_request_and_what_was_made_of_them_stays(lake: Lake) -> None:
    add(lake, 1)
    lake.commit(staged(lake, 2, day=DAY + 1), instead=False)
    seen = lake.table(USAGE).version
    assert expire(lake, USAGE, DAY + 1) == 1
    assert told(lake) == [2]
    assert lake.changes(USAGE, seen).keys == frozenset()


# --- columns -------------------------------------------------------------------------------------------------------------


def test_a_column_that_is_new_is_added_and_older_files_read_as_null(lake: Lake) -> None:
    add(lake, 1)
    add(lake, 2, colour="red")
    found = lake.arrow(USAGE)
    assert sorted((row["messages"], row["colour"]) for row in found.to_pylist()) == [(1, None), (2, "red")]
    assert "colour" in {column.name for column in DeltaTable(str(lake.root / "gold/usage")).schema().fields}


def test_files_of_two_sessions_with_int96_and_with_micros_are_read_side_by_side(lake: Lake) -> None:
    add(lake, 1)
    add(lake, 2)
    first, second = lake.table(USAGE).files()
    path = lake.root / "gold/usage" / second.path
    pq.write_table(pq.ParquetFile(path).read(), path, use_deprecated_int96_timestamps=True)
    assert pq.read_metadata(path).schema.column(0).physical_type == "INT96"
    found = lake.arrow(USAGE)
    assert found["day"].to_pylist() == [MIDNIGHT, MIDNIGHT]
    assert first.rows == 1


def test_a_table_of_a_newer_relevo_is_refused_and_not_touched(lake: Lake) -> None:
    add(lake, 1)
    table = DeltaTable(str(lake.root / "gold/usage"))
    newer = CommitProperties(app_transactions=[Transaction(SCHEMA_MARK, 99)])
    table.create_write_transaction([], "append", table.schema(), ["date"], commit_properties=newer)
    with pytest.raises(LakeTooNew, match=r"gold.usage was written by a newer relevo .* upgrade relevo"):
        add(lake, 2)
    assert DeltaTable(str(lake.root / "gold/usage")).to_pyarrow_table().num_rows == 1


def test_a_table_whose_columns_had_another_meaning_is_made_again(lake: Lake) -> None:
    lake.commit(Staged(lake.spec("gold.forecast"), {"all": []}), instead=True, built_from={"gold.throughput": 3})
    assert lake.taken("gold.forecast", "gold.throughput") == 3
    table = DeltaTable(str(lake.root / "gold/forecast"))
    before = CommitProperties(app_transactions=[Transaction(SCHEMA_MARK, 1)])
    table.create_write_transaction([], "append", table.schema(), [], commit_properties=before)
    assert lake.taken("gold.forecast", "gold.throughput") == 0


def test_a_lake_of_the_form_before_says_how_to_bring_it_over(lake: Lake) -> None:
    (lake.root / "gold/usage/_manifest").mkdir(parents=True)
    with pytest.raises(LakeIsOld, match="relevo pipeline migrate"):
        lake.table(USAGE)


# --- notes ---------------------------------------------------------------------------------------------------------------


def test_notes_come_with_the_commit_and_one_of_two_writers_is_told(lake: Lake) -> None:
    first, second, base = staged(lake, 1), staged(lake, 2), lake.table(USAGE)
    lake.commit(first, instead=False, notes={"a": 1, "b": 1}, base=base)
    with pytest.raises(LakeChanged):
        lake.commit(second, instead=False, notes={"a": 2}, base=base)
    lake.commit(second, instead=False, notes={"a": 3})
    assert (lake.notes(USAGE), told(lake)) == ({"a": 3, "b": 1}, [1, 2])
    assert len(list((lake.root / "gold/usage/_relevo/notes").iterdir())) == 1


# --- storage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["ftp://host/lake", "s4://bucket/lake", "https://host/lake"])
def test_a_scheme_nobody_knows_is_an_error_that_names_those_that_are_known(where: str) -> None:
    with pytest.raises(StorageUnknown, match=r"s3://.*abfss://.*gs://.*hdfs://"):
        Lake(where)


def test_credentials_do_not_belong_into_an_address_and_are_not_told() -> None:
    with pytest.raises(CredentialsInAddress) as refused:
        Lake("s3://AKIAKEY:verysecret@bucket/lake")
    assert "verysecret" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)


def test_a_file_address_is_a_folder(tmp_path: Path) -> None:
    assert Storage.at(f"file://{tmp_path}/lake").folder == tmp_path / "lake"
    assert Storage.at("s3a://bucket/lake/").for_delta == "s3://bucket/lake"


def test_the_log_holds_no_text_but_the_names_of_queues(lake: Lake) -> None:
    add(lake, 1, tenant="Zyxomma")
    log = "".join(path.read_text() for path in (lake.root / "gold/usage/_delta_log").glob("*.json"))
    assert "Zyxomma" not in log
    (added,) = (json.loads(line)["add"] for line in log.splitlines() if '"add"' in line)
    stats = json.loads(added["stats"])
    assert (stats["minValues"]["queue"], stats["maxValues"]["messages"]) == ("emails", 1)


def test_the_page_of_the_tables_is_current_and_says_something_of_every_column() -> None:
    written = (Path(__file__).parents[3] / "docs" / "lake-tables.md").read_text()
    assert written == page(), "run `python -m relevo.pipeline.lake.tables_page > docs/lake-tables.md`"
    assert [column.name for spec in ALL for column in spec.columns if not column.holds] == []


def test_sql_answers_without_a_jvm_and_only_reads(lake: Lake, tmp_path: Path) -> None:
    add(lake, 1, 2)
    assert lake.sql("SELECT sum(messages) AS n FROM relevo_gold.usage WHERE date = '2024-10-04'").to_pylist() == [
        {"n": 3}
    ]
    for wrong in (
        "DROP TABLE gold.usage",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "INSERT INTO gold.usage SELECT * FROM gold.usage",
        "SELECT nope FROM gold.usage",
    ):
        with pytest.raises(SqlRefused, match=r"The tables are relevo_gold.usage"):
            lake.sql(wrong)
    assert (told(lake), (tmp_path / "out.csv").exists()) == ([1, 2], False)


def test_iceberg_shows_the_same_rows_without_a_copy(lake: Lake) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    from relevo.pipeline.lake.iceberg import publish

    add(lake, 1, 2)
    assert publish(lake) == {"relevo_gold.usage": 2}
    add(lake, 3)
    assert publish(lake) == {"relevo_gold.usage": 3}
    catalog = SqlCatalog("relevo", uri=f"sqlite:///{lake.root}/_iceberg/catalog.db")
    assert sorted(catalog.load_table("relevo_gold.usage").scan().to_arrow()["messages"].to_pylist()) == [1, 2, 3]
    assert len(list((lake.root / "gold").rglob("*.parquet"))) == 2
