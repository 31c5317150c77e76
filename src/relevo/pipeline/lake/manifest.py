"""The manifest of a table: which files hold it. Files that no manifest names do not exist, whatever lies in the folder.

A version is one JSON file, written whole under another name and then linked to `v<number>.json`: a link fails when the name
is taken, so of two writers one wins and the other is told. Readers follow the highest version; older ones are kept a while.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from relevo.errors import LakeChanged, LakeTooNew

FORMAT = 1
"""Of the manifest itself; a table's rows have a `schema_version` of their own."""


@dataclass(frozen=True)
class DataFile:
    """One Parquet file. `added_in` is the version of the table it came with."""

    path: str
    rows: int
    bytes: int
    added_in: int


@dataclass(frozen=True)
class Partition:
    """The files of one partition, and what is known of them."""

    files: tuple[DataFile, ...] = ()
    changed_in: int = 0
    covers: tuple[int, ...] = ()
    """Days (since 1970) this partition adds to, now or before: what is built from it by day looks here."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Manifest:
    """One version of one table. Version 0 is a table that does not exist yet."""

    table: str
    version: int = 0
    schema_version: int = 1
    written_at_ms: int = 0
    partitions: dict[str, Partition] = field(default_factory=dict[str, Partition])
    built_from: dict[str, int] = field(default_factory=dict[str, int])
    notes: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions.values())

    @property
    def bytes(self) -> int:
        return sum(file.bytes for partition in self.partitions.values() for file in partition.files)

    def files(self, keys: set[str] | None = None, *, since: int = 0) -> list[DataFile]:
        """Of these partitions (of all), those that came after version `since`."""
        return [
            file
            for key, partition in sorted(self.partitions.items())
            if keys is None or key in keys
            for file in partition.files
            if file.added_in > since
        ]

    def changed(self, since: int) -> set[str]:
        """The partitions that are not what they were in version `since`."""
        return {key for key, partition in self.partitions.items() if partition.changed_in > since}

    def with_files(self, added: dict[str, list[DataFile]], *, instead: bool, covers: dict[str, set[int]]) -> Manifest:
        """The next version: with these files in addition to, or instead of, what their partitions had."""
        number = self.version + 1
        partitions = dict(self.partitions)
        for key, files in added.items():
            old = partitions.get(key, Partition())
            stamped = tuple(replace(file, added_in=number) for file in files)
            kept = () if instead else old.files
            reach = tuple(sorted({*old.covers, *covers.get(key, set())}))
            partitions[key] = Partition((*kept, *stamped), number, reach)
        return replace(self, version=number, partitions=partitions)


class Manifests:
    """The versions of one table's manifest, in a folder."""

    def __init__(self, folder: Path, table: str, schema_version: int) -> None:
        self._folder = folder
        self._table = table
        self._schema_version = schema_version

    def versions(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        names = (entry.name for entry in os.scandir(self._folder))
        return sorted(int(name[1:-5]) for name in names if name.startswith("v") and name.endswith(".json"))

    def newest(self) -> Manifest:
        numbers = self.versions()
        return self.read(numbers[-1]) if numbers else Manifest(self._table, schema_version=self._schema_version)

    def read(self, version: int) -> Manifest:
        told = json.loads(self._path(version).read_text())
        for what, ours in (("format", FORMAT), ("schema_version", self._schema_version)):
            if told[what] > ours:
                raise LakeTooNew(table=self._table, what=what.replace("_", " "), theirs=told[what], ours=ours)
        partitions = {
            key: Partition(
                tuple(DataFile(**file) for file in partition["files"]),
                partition["changed_in"],
                tuple(partition["covers"]),
            )
            for key, partition in told["partitions"].items()
        }
        return Manifest(
            told["table"],
            told["version"],
            told["schema_version"],
            told["written_at_ms"],
            partitions,
            told["built_from"],
            told["notes"],
        )

    def write(self, manifest: Manifest) -> Manifest:
        """Makes it the newest version, or raises `LakeChanged` when someone else was first."""
        self._folder.mkdir(parents=True, exist_ok=True)
        stamped = replace(manifest, written_at_ms=time.time_ns() // 1_000_000, schema_version=self._schema_version)
        draft = self._folder / f".draft-{uuid.uuid4().hex}"
        with draft.open("x") as file:
            json.dump({"format": FORMAT, **asdict(stamped)}, file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._path(stamped.version))
        except FileExistsError:
            raise LakeChanged(table=self._table, version=stamped.version) from None
        finally:
            draft.unlink()
        return stamped

    def forget(self, *, keep: int, since_ms: int = 0) -> set[str]:
        """Deletes all but the newest `keep` versions, of these all but the newest that are older than `since_ms`, and returns
        the files that the kept ones name."""
        numbers = self.versions()
        newest = [self.read(number) for number in numbers[-keep:]]
        kept = [manifest for manifest in newest[:-1] if manifest.written_at_ms >= since_ms] + newest[-1:]
        for number in set(numbers) - {manifest.version for manifest in kept}:
            self._path(number).unlink(missing_ok=True)
        return {file.path for manifest in kept for file in manifest.files()}

    def _path(self, version: int) -> Path:
        return self._folder / f"v{version:08d}.json"
