# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportUnknownParameterType=false
# pyarrow comes without types.
"""A table as Delta Lake keeps it: a log of commits, each of which adds and removes files all at once.

`deltalake` writes the log, and needs no JVM. Of two writers that want the same version number one wins. The other looks at what
has come meanwhile (`_fits`), and tries the next number or is told that its work is out of date:

- files that are only added never conflict;
- who takes a partition's place conflicts with whoever changed that partition's rows meanwhile;
- who merges or rewrites files conflicts with whoever removed one of them;
- two that continue one app transaction conflict: two builds of a table, two ingests of one query.

We decide this here because `deltalake` 1.6 lets a replacement through that removes a file which a compaction has just merged,
and those rows would then be there twice.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from relevo.errors import LakeChanged, LakeIsOld, LakeTooNew
from relevo.pipeline.lake.columns import PARTITIONS, arrow_schema
from relevo.pipeline.lake.instants import day_of, key_of, values_of
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.lake.tables import ALL, TableSpec
from relevo.pipeline.lake.version import Changes, DataFile, TableVersion, partitioned

SCHEMA_MARK = "relevo.schema"
NOTES_MARK = "relevo.notes"
CLEARED_MARK = "relevo.cleared"
_KIND = "relevoKind"
_EXPIRED = "expired"
_TRIES = 100
_LOG_READERS = 16


def source_mark(source: str) -> str:
    """The app transaction that says up to which version of `source` a table was built."""
    return f"relevo.from.{source}"


_MARKS = (SCHEMA_MARK, NOTES_MARK, CLEARED_MARK, *(source_mark(spec.name) for spec in ALL))


@dataclass(frozen=True)
class Commit:
    """What one commit does. `instead` names partitions whose files all go; `remove` names files."""

    add: tuple[DataFile, ...] = ()
    stats: Mapping[str, str] = field(default_factory=dict[str, str])
    instead: frozenset[str] = frozenset()
    remove: tuple[DataFile, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict[str, int])
    moves_rows_only: bool = False
    """The rows stay what they are: readers of changes pass over it."""
    expires: bool = False
    """Rows go because they are old: what was made of them stays."""
    schema: Any = None
    """The columns from now on, where they may have changed altogether: then all rows from before go."""


class DeltaLog:
    """The log of one table."""

    def __init__(self, storage: Storage, spec: TableSpec) -> None:
        self.storage = storage
        self._spec = spec

    @staticmethod
    def of(lake: Storage, spec: TableSpec) -> DeltaLog:
        """Of a table in a lake."""
        return DeltaLog(lake.below(spec.path), spec)

    # --- reading -------------------------------------------------------------------------------------------------------

    def newest(self, *marks: str) -> TableVersion:
        """The newest version, with these app transactions besides our own."""
        table = self.opened()
        return TableVersion(self._spec.name) if table is None else self._version(table, marks)

    def at(self, version: int) -> TableVersion:
        """An older version, for as long as its files are kept."""
        return self._version(DeltaTable(self.storage.for_delta, version, self.storage.delta_options()), ())

    def opened(self) -> DeltaTable | None:
        """As `deltalake` reads it; None when there is no such table."""
        try:
            return DeltaTable(self.storage.for_delta, storage_options=self.storage.delta_options())
        except TableNotFoundError:
            pass
        except DeltaProtocolError as error:
            raise LakeTooNew(table=self._spec.name, what="Delta protocol", theirs=str(error), ours="1.6") from None
        except DeltaError as error:
            if not _is_missing(error):
                raise
        if self.storage.is_local and (self.storage.folder / "_manifest").is_dir():
            raise LakeIsOld(table=self._spec.name)
        return None

    def written_at_ms(self) -> int:
        table = self.opened()
        return 0 if table is None else int(table.history(1)[0]["timestamp"])

    def schema(self, table: DeltaTable | None = None) -> Any:
        """The columns of the data files, for Arrow: the declared ones, and what has been added to the table since."""
        table = table or self.opened()
        if table is None:
            return self._spec.arrow_schema()
        return without(pa.schema(table.schema()), self._spec.partition_columns)

    def whole_schema(self) -> Any:
        """As `schema`, and then the columns that the table is partitioned by."""
        return pa.schema([*self.schema(), *self._partition_fields()])

    def _partition_fields(self) -> list[Any]:
        return [arrow_schema((PARTITIONS[name],)).field(0) for name in self._spec.partition_columns]

    def changes(self, since: int, now: TableVersion) -> Changes:
        """What came after version `since`, up to `now`."""
        if since >= now.version:
            return Changes()
        with ThreadPoolExecutor(_LOG_READERS, thread_name_prefix="relevo-log") as threads:
            commits = list(threads.map(self._actions, range(since + 1, now.version + 1)))
        if any(commit is None for commit in commits):
            return _all_of_it(now)
        fresh: dict[str, DataFile] = {}
        keys, days = set[str](), set[int]()
        for actions in commits:
            self._follow(actions or [], fresh, keys, days)
        there = {file.path for file in now.files()}
        if any(file.path not in there and self.storage.size(file.path) is None for file in fresh.values()):
            return _all_of_it(now)  # another program merged the files, and deleted them since
        return Changes(tuple(fresh.values()), frozenset(keys), frozenset(days))

    def _follow(self, actions: list[Any], fresh: dict[str, DataFile], keys: set[str], days: set[int]) -> None:
        """Adds what one commit did."""
        if any(action.get("commitInfo", {}).get(_KIND) == _EXPIRED for action in actions):
            return
        added = [self._file(one["add"]) for one in actions if one.get("add", {}).get("dataChange")]
        removed = [self._file(one["remove"]) for one in actions if one.get("remove", {}).get("dataChange")]
        keys.update(file.key for file in (*added, *removed))
        days.update(file.day for file in (*added, *removed) if file.day is not None)
        gone = {file.token for file in removed}
        for file in added:
            if file.token not in gone or file.token in fresh:  # else its rows were there before, and were changed
                fresh[file.token] = file
        for token in gone - {file.token for file in added}:
            fresh.pop(token, None)

    def _actions(self, version: int) -> list[Any] | None:
        text = self.storage.read_bytes(f"_delta_log/{version:020d}.json")
        return None if text is None else [json.loads(line) for line in text.splitlines() if line.strip()]

    def _file(self, action: dict[str, Any]) -> DataFile:
        values: dict[str, str] = action.get("partitionValues") or {}
        stats = json.loads(action.get("stats") or "{}")
        rows, size = stats.get("numRecords", 0), action.get("size") or 0
        return DataFile(unquote(action["path"]), key_of(values, self._spec.span), rows, size, day_of(values))

    def _version(self, table: DeltaTable, marks: Iterable[str]) -> TableVersion:
        found = pa.table(table.get_add_actions(flatten=True))
        names = [name for name in self._spec.partition_columns if f"partition.{name}" in found.column_names]
        columns = found.select(
            ["path", "size_bytes", "num_records", *(f"partition.{name}" for name in names)]
        ).to_pylist()
        files: list[DataFile] = []
        for row in columns:
            values = {name: _text(row[f"partition.{name}"]) for name in names}
            key, day = key_of(values, self._spec.span), day_of(values)
            files.append(DataFile(row["path"], key, row["num_records"] or 0, row["size_bytes"], day))
        kept = {mark: number for mark in (*_MARKS, *marks) if (number := table.transaction_version(mark)) is not None}
        theirs = kept.get(SCHEMA_MARK, 0)
        if theirs > self._spec.schema_version:
            ours = self._spec.schema_version
            raise LakeTooNew(table=self._spec.name, what="schema version", theirs=theirs, ours=ours)
        files.sort(key=lambda file: file.path)
        return TableVersion(self._spec.name, table.version(), partitioned(files), kept)

    # --- writing -------------------------------------------------------------------------------------------------------

    def create(self, schema: Any = None) -> DeltaTable:
        """The table, made with these columns (with its declared ones) when it is not there yet."""
        table = self.opened()
        if table is not None:
            return table
        properties = CommitProperties(app_transactions=[Transaction(SCHEMA_MARK, self._spec.schema_version)])
        try:
            DeltaTable.create(
                self.storage.for_delta,
                Schema.from_arrow(pa.schema([*(schema or self._spec.arrow_schema()), *self._partition_fields()])),
                mode="ignore",
                partition_by=list(self._spec.partition_columns),
                name=self._spec.name,
                description=self._spec.holds,
                configuration=self._spec.properties,
                storage_options=self.storage.delta_options(),
                commit_properties=properties,
            )
        except DeltaError:
            if self.opened() is None:  # else another process was first
                raise
        return DeltaTable(self.storage.for_delta, storage_options=self.storage.delta_options())

    def evolve(self, schema: Any) -> None:
        """Adds columns that the table does not have yet; files from before read as null there."""
        for _ in range(_TRIES):
            table = self.create(schema)
            known = set(pa.schema(table.schema()).names)
            new = [column for column in schema if column.name not in known]
            if not new:
                return
            try:
                table.alter.add_columns(list(Schema.from_arrow(pa.schema(new)).fields))
            except DeltaError:
                if DeltaTable(self.storage.for_delta, None, self.storage.delta_options()).version() == table.version():
                    raise

    def commit(self, wanted: Commit, base: TableVersion) -> TableVersion:
        """Makes one commit of it, on top of what others have committed since `base`; `LakeChanged` when it does not fit."""
        for number in range(_TRIES):
            table = self.create()
            now = self._version(table, wanted.marks)
            gone = self._fits(wanted, base, now)
            try:
                self._write(table, wanted, gone)
            except CommitFailedError:
                current = self.opened()
                if current is None or current.version() == table.version():
                    raise
                time.sleep(random.uniform(0, 0.01 * min(number + 1, 20)))
                continue
            return self.newest(*wanted.marks)
        raise LakeChanged(table=self._spec.name, version=base.version)

    def _fits(self, wanted: Commit, base: TableVersion, now: TableVersion) -> list[DataFile]:
        """The files that go, when the commit still means what it meant at `base`."""
        conflict = LakeChanged(table=self._spec.name, version=now.version)
        if any(now.marks.get(mark) != base.marks.get(mark) for mark in wanted.marks if mark != SCHEMA_MARK):
            raise conflict
        live = {file.path: file for file in now.files()}
        if any(file.path not in live for file in wanted.remove):
            raise conflict
        if wanted.instead and now.version > base.version:
            meanwhile = self.changes(base.version, now)
            if meanwhile.all_of_it or meanwhile.keys & wanted.instead:
                raise conflict
        return [*(live[file.path] for file in wanted.remove), *now.files(wanted.instead)]

    def _write(self, table: DeltaTable, wanted: Commit, gone: list[DataFile]) -> None:
        now_ms, change = time.time_ns() // 1_000_000, not wanted.moves_rows_only
        added = [
            AddAction(
                path=file.path,
                size=file.bytes,
                partition_values=self._values(file),
                modification_time=now_ms,
                data_change=change,
                stats=wanted.stats.get(file.path) or json.dumps({"numRecords": file.rows}),
            )
            for file in wanted.add
        ]
        removed = [RemoveAction(file.path, change, now_ms, file.bytes, self._values(file)) for file in gone]
        marks = {SCHEMA_MARK: self._spec.schema_version, **wanted.marks}
        columns = table.schema() if wanted.schema is None else Schema.from_arrow(wanted.schema)
        anew = columns != table.schema()
        table.create_write_transaction(
            added if anew else [*added, *removed],  # else each file would be removed twice
            mode="overwrite" if anew else "append",
            schema=columns,
            partition_by=list(self._spec.partition_columns),
            commit_properties=CommitProperties(
                custom_metadata={_KIND: _EXPIRED} if wanted.expires else None,
                max_commit_retries=0,
                app_transactions=[Transaction(mark, number) for mark, number in marks.items()],
            ),
        )

    def _values(self, file: DataFile) -> dict[str, str | None]:
        return dict(values_of(file.key, self._spec.span, file.day))


def without(schema: Any, columns: Iterable[str]) -> Any:
    """A schema less some columns, without what Arrow notes on the side."""
    left_out = set(columns)
    return pa.schema([column for column in schema if column.name not in left_out])


def _all_of_it(now: TableVersion) -> Changes:
    return Changes(tuple(now.files()), frozenset(now.partitions), frozenset(now.days), all_of_it=True)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _is_missing(error: DeltaError) -> bool:
    said = str(error).lower()
    return "not a delta table" in said or "no files in log segment" in said or "not found" in said


def moved(file: DataFile, path: str, size: int, rows: int | None = None) -> DataFile:
    """The same file under another name, with its rows changed or merged."""
    return replace(file, path=path, bytes=size, rows=file.rows if rows is None else rows)
