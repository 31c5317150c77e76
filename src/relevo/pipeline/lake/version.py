"""One version of a table: which files hold it, by partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataFile:
    """One Parquet file. `key` names its partition; `day` is the day its rows add to, where the table is cut by that too."""

    path: str
    key: str
    rows: int
    bytes: int
    day: int | None = None

    @property
    def token(self) -> str:
        """What a file keeps when its rows are changed where they are: its name up to the first dot.

        >>> DataFile("date=2026-11-15/ab12-0.erased-77.parquet", "2026-11-15", 1, 1).token
        'ab12-0'
        """
        return self.path.rpartition("/")[2].partition(".")[0]


@dataclass(frozen=True)
class Partition:
    """The files of one partition."""

    files: tuple[DataFile, ...] = ()

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class TableVersion:
    """What a table held at one version. Version 0 is a table that does not exist yet, or that nobody has written to."""

    table: str
    version: int = 0
    partitions: dict[str, Partition] = field(default_factory=dict[str, Partition])
    marks: dict[str, int] = field(default_factory=dict[str, int])
    """The numbers of the app transactions we keep: how far each source was taken, which batch came last."""

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions.values())

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files())

    @property
    def days(self) -> set[int]:
        """The days that rows add to, of a table that is cut by them."""
        return {file.day for file in self.files() if file.day is not None}

    def files(self, keys: Iterable[str] | None = None) -> list[DataFile]:
        """Of these partitions, or of all."""
        wanted = None if keys is None else set(keys)
        return [
            file
            for key, partition in sorted(self.partitions.items())
            if wanted is None or key in wanted
            for file in partition.files
        ]

    def of_days(self, days: set[int]) -> list[DataFile]:
        """The files with rows that add to these days."""
        return [file for file in self.files() if file.day in days]


@dataclass(frozen=True)
class Changes:
    """What happened to a table after a version. With `all_of_it` the log does not reach back that far any more: then every
    file counts as added and every partition as changed."""

    added: tuple[DataFile, ...] = ()
    """Files with rows that were not there before, each under its name of today."""
    keys: frozenset[str] = frozenset()
    days: frozenset[int] = frozenset()
    all_of_it: bool = False


def partitioned(files: Iterable[DataFile]) -> dict[str, Partition]:
    """Files by their partition."""
    found: dict[str, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.key, []).append(file)
    return {key: Partition(tuple(those)) for key, those in found.items()}
