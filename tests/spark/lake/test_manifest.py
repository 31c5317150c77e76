"""Manifests: versions that appear whole or not at all. No Spark here."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from relevo.errors import LakeChanged, LakeTooNew
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.manifest import DataFile, Manifest, Manifests


def manifests(folder: Path) -> Manifests:
    return Manifests(folder / "_manifest", "gold.usage", 1)


def one_file(name: str, rows: int = 1) -> dict[str, list[DataFile]]:
    return {"2026-11-15": [DataFile(f"2026-11-15/{name}", rows, 10, 0)]}


def test_a_table_nobody_wrote_has_version_zero_and_no_rows(tmp_path: Path) -> None:
    assert (manifests(tmp_path).newest().version, manifests(tmp_path).newest().rows) == (0, 0)


def test_the_newest_version_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    first = Manifest("gold.usage").with_files(one_file("a"), instead=True, covers={"2026-11-15": {3, 1}})
    written = manifests(tmp_path).write(replace(first, built_from={"silver.counts": 7}, notes={"n": 1}))
    assert manifests(tmp_path).newest() == written
    assert written.partitions["2026-11-15"].covers == (1, 3)


def test_added_files_stand_beside_the_old_ones_and_replaced_ones_instead(tmp_path: Path) -> None:
    first = Manifest("gold.usage").with_files(one_file("a", 2), instead=True, covers={})
    beside = first.with_files(one_file("b", 3), instead=False, covers={})
    instead = first.with_files(one_file("b", 3), instead=True, covers={})
    assert (beside.rows, instead.rows) == (5, 3)
    assert [file.path for file in beside.files(since=1)] == ["2026-11-15/b"]


def test_what_changed_since_a_version_is_known_by_partition() -> None:
    first = Manifest("gold.usage").with_files({"a": [], "b": []}, instead=True, covers={})
    second = first.with_files({"b": []}, instead=True, covers={})
    assert (second.changed(0), second.changed(1), second.changed(2)) == ({"a", "b"}, {"b"}, set())


def test_of_two_writers_of_one_version_the_second_is_told(tmp_path: Path) -> None:
    base = manifests(tmp_path).newest()
    manifests(tmp_path).write(base.with_files(one_file("a"), instead=True, covers={}))
    with pytest.raises(LakeChanged, match="Another process wrote version 1"):
        manifests(tmp_path).write(base.with_files(one_file("b"), instead=True, covers={}))
    assert [file.path for file in manifests(tmp_path).newest().files()] == ["2026-11-15/a"]


def test_a_draft_that_was_never_linked_is_invisible(tmp_path: Path) -> None:
    manifests(tmp_path).write(Manifest("gold.usage", version=1))
    (tmp_path / "_manifest" / ".draft-0123").write_text('{"half":')
    assert manifests(tmp_path).newest().version == 1


@pytest.mark.parametrize("what", ["format", "schema_version"])
def test_a_table_of_a_newer_version_is_refused_and_not_touched(what: str, tmp_path: Path) -> None:
    manifests(tmp_path).write(Manifest("gold.usage", version=1))
    path = tmp_path / "_manifest" / "v00000001.json"
    newer = json.dumps(json.loads(path.read_text()) | {what: 2})
    path.write_text(newer)
    with pytest.raises(LakeTooNew, match=r"gold.usage was written by a newer relevo .* upgrade relevo"):
        manifests(tmp_path).newest()
    assert path.read_text() == newer


def test_old_versions_are_forgotten_and_their_files_no_longer_named(tmp_path: Path) -> None:
    table = manifests(tmp_path)
    version = table.newest()
    for name in "abcd":
        version = table.write(version.with_files(one_file(name), instead=True, covers={}))
    assert table.forget(keep=2) == {"2026-11-15/c", "2026-11-15/d"}
    assert table.versions() == [3, 4]


def test_a_lake_says_how_to_begin_one(tmp_path: Path) -> None:
    from relevo.errors import NoLake

    with pytest.raises(NoLake, match="relevo pipeline ingest"):
        Lake(tmp_path / "none").must_exist()
