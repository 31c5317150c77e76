# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false
# pyarrow comes without types.
"""Brings a lake of the form before Delta over, where it lies: `relevo pipeline migrate`. No data file is copied.

That form had a manifest of our own: `_manifest/v00000012.json` named the files of a table's version. Bronze is taken over: its
files get a second name (a hard link) where Delta wants them, one commit names them all, and the old names go. Silver and gold
are made from bronze: their folders are deleted, and the next build makes them again.

Killed at any point and run again, it goes on: what is committed already is not looked at again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from relevo.pipeline.lake.files import stats_of
from relevo.pipeline.lake.instants import values_of
from relevo.pipeline.lake.lake import Lake, Staged
from relevo.pipeline.lake.tables import ALL, TableSpec
from relevo.pipeline.lake.version import DataFile

OLD, UNDER_WAY = "_manifest", "_migrating"
_TAKEN_OVER = "relevo.migrated"


@dataclass(frozen=True)
class Migrated:
    """What was taken over, and which tables the next build makes anew."""

    tables: int
    files: int
    rows: int
    to_build: tuple[str, ...]


def migrate(lake: Lake, *, told: Callable[[str], None] = lambda _: None) -> Migrated:
    """Takes bronze over and throws silver and gold away. A lake that is Delta already stays what it is."""
    tables = files = rows = 0
    anew: list[str] = []
    if not lake.storage.is_local:  # that form lay on this machine only
        lake.must_exist()
        return Migrated(0, 0, 0, ())
    for spec in ALL:
        folder = lake.folder(spec.name).folder
        if (folder / OLD).is_dir():
            (folder / OLD).rename(folder / UNDER_WAY)
        if not (folder / UNDER_WAY).is_dir():
            continue
        told(spec.name)
        if spec.layer != "bronze" or spec.name == "bronze.quarantine":
            shutil.rmtree(folder)
            anew.append(spec.name)
            continue
        taken = _taken_over(lake, spec, folder)
        tables, files, rows = tables + 1, files + len(taken.paths), rows + taken.rows
    if not tables and not anew:
        lake.must_exist()
    return Migrated(tables, files, rows, tuple(anew))


def _taken_over(lake: Lake, spec: TableSpec, folder: Path) -> Staged:
    manifest = json.loads(max((folder / UNDER_WAY).glob("v*.json")).read_text())
    old = [(key, file) for key, part in manifest["partitions"].items() for file in part["files"] if file["rows"]]
    staged = Staged(spec)
    if _TAKEN_OVER not in lake.table(spec.name, _TAKEN_OVER).marks:
        for key, file in old:
            staged.files.setdefault(key, []).append(_linked(spec, folder, key, file))
        for path in staged.paths:
            staged.stats[path] = stats_of(pq.read_metadata(folder / path))
        notes = dict(manifest["notes"])
        batch = {f"relevo.ingest.{notes['query']}": notes.pop("batch")} if "query" in notes else {}
        if notes.get("in_both"):  # the archive job was stopped in the middle, and goes on with these files
            names = {file["path"]: _name(spec, key, file["path"]) for key, file in old}
            notes["in_both"]["paths"] = [names[path] for path in notes["in_both"]["paths"]]
        lake.commit(staged, instead=False, marks={**batch, _TAKEN_OVER: 1}, notes=notes)
    for entry in folder.iterdir():  # the old names, and what nobody named
        if entry.is_dir() and entry.name != UNDER_WAY and not entry.name.startswith(("date=", "_delta_log", "_relevo")):
            shutil.rmtree(entry)
    shutil.rmtree(folder / UNDER_WAY)
    return staged


def _linked(spec: TableSpec, folder: Path, key: str, file: dict[str, Any]) -> DataFile:
    path = _name(spec, key, file["path"])
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        os.link(folder / file["path"], target)
    return DataFile(path, key, file["rows"], file["bytes"])


def _name(spec: TableSpec, key: str, path: str) -> str:
    folders = "".join(f"{name}={value}/" for name, value in values_of(key, spec.span).items())
    return folders + path.rpartition("/")[2]
