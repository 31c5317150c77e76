"""A lake: a folder of Delta tables, on this machine or on any storage. Reads their newest version, and makes the next one
visible in one step."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from relevo.errors import FileDamaged, FilesNotShared, LakeChanged, NoLake, TableBroken
from relevo.pipeline.lake import files as parquet
from relevo.pipeline.lake.delta import NOTES_MARK, SCHEMA_MARK, Commit, DeltaLog, moved, source_mark
from relevo.pipeline.lake.files import DAY, PART, WRITTEN, PartFiles, Written, fitted
from relevo.pipeline.lake.instants import part_key, part_number
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.lake.tables import BY_NAME, OWN, TableSpec, spec_named
from relevo.pipeline.lake.version import Changes, DataFile, TableVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ERASED_AT = "erased_at_ms"
"""The note of bronze.messages that says when something was last erased: older versions of any table are not kept."""
READS = "spark.relevo.lake.reads"
"""How Spark reads a lake that is not on this machine: `tasks` (pyarrow in its Python workers, no jar needed) or `native`."""
NOTES = "_relevo/notes"
_COMPLAINT = "_relevo/broken.json"

Row = dict[str, Any]


@dataclass
class Staged:
    """Files of a table that are written and not yet visible."""

    spec: TableSpec
    files: dict[str, list[DataFile]] = field(default_factory=dict[str, list[DataFile]])
    stats: dict[str, str] = field(default_factory=dict[str, str])
    schema: Any = None
    """Its columns, where these are not the table's: a user's own table has those of its query."""

    @property
    def rows(self) -> int:
        return sum(file.rows for files in self.files.values() for file in files)

    @property
    def paths(self) -> list[str]:
        return [file.path for files in self.files.values() for file in files]


class Lake:
    """The lake at a path that the driver and all executors reach, or at an address such as `s3://bucket/lake`.

    >>> Lake("a folder that is not there yet").table("gold.throughput").version
    0
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        self.storage: Storage = Storage.at(where)

    @property
    def root(self) -> Path:
        """The folder of a lake on this machine."""
        return self.storage.folder

    # --- reading -------------------------------------------------------------------------------------------------------

    def table(self, table: str, *marks: str) -> TableVersion:
        """The newest version of a table. `marks` are app transactions whose numbers are wanted besides ours."""
        return self.log(table).newest(*marks)

    def log(self, table: str) -> DeltaLog:
        return DeltaLog.of(self.storage, spec_named(table))

    def folder(self, table: str) -> Storage:
        return self.storage.below(spec_named(table).path)

    def spec(self, table: str) -> TableSpec:
        return spec_named(table)

    def exists(self) -> bool:
        return any(self.log(name).opened() is not None for name in BY_NAME)

    def must_exist(self) -> None:
        if not self.exists():
            raise NoLake(path=self.storage.uri)

    def must_be_readable(self) -> None:
        """Looks at the end of every file, where a file that was cut short or overwritten shows."""
        for name in BY_NAME:
            for file in self.table(name).files():
                self.arrow_file(name, file.path, [])

    def taken(self, table: str, source: str) -> int:
        """The version of `source` that `table` was built from; 0 when none was, or when its columns had another meaning."""
        now = self.table(table, source_mark(source))
        of_today = now.marks.get(SCHEMA_MARK, 0) >= spec_named(table).schema_version
        return now.marks.get(source_mark(source), 0) if of_today else 0

    def changes(self, table: str, since: int, now: TableVersion | None = None) -> Changes:
        """What happened to a table after a version."""
        return self.log(table).changes(since, now or self.table(table))

    def notes(self, table: str) -> dict[str, Any]:
        """What jobs have written down beside a table, in the same step as its rows."""
        while True:
            pointer = self.table(table).marks.get(NOTES_MARK)
            if pointer is None:
                return {}
            found = self.folder(table).read_json(f"{NOTES}/{pointer}.json")
            if found is not None:
                return found
            if self.table(table).marks.get(NOTES_MARK) == pointer:  # else others were written while we looked
                raise FileDamaged(file=f"{NOTES}/{pointer}.json", table=table, reason="it is not there")

    def read(self, spark: SparkSession, table: str, keys: Iterable[str] | None = None) -> DataFrame | None:
        """The table, or some partitions of it; None when that has no rows."""
        return self.frame_of(spark, table, self.table(table).files(keys))

    def frame_of(self, spark: SparkSession, table: str, files: Iterable[DataFile]) -> DataFrame | None:
        """The rows of some files of a table; None when there are none."""
        paths = [file.path for file in files if file.rows]
        return self.frame(spark, table, paths) if paths else None

    def frame(self, spark: SparkSession, table: str, paths: list[str], schema: Any = None) -> DataFrame:
        """The rows of some files, with all columns the table has: what an older file does not have is null."""
        from pyspark.sql.pandas.types import from_arrow_schema

        folder, schema = self.folder(table), self.log(table).schema() if schema is None else schema
        kinds = from_arrow_schema(schema)
        if folder.is_local or spark.conf.get(READS, "tasks") == "native":
            return spark.read.schema(kinds).parquet(*(f"{folder.for_spark}/{path}" for path in paths))
        named = spark.createDataFrame([(path,) for path in paths], "path string").repartition(len(paths))
        return named.mapInArrow(parquet.reading(folder, schema), kinds)

    def register(self, spark: SparkSession) -> list[str]:
        """Makes the tables known to Spark SQL, also those without rows: `SELECT * FROM relevo_gold.latency`. Returns their
        names."""
        from relevo.pipeline.lake.spark_tables import register

        self.must_exist()
        return register(self.storage, spark)

    def sql(self, query: str) -> Any:
        """The answer to a query, as an Arrow table, without Spark: `lake.sql("SELECT * FROM relevo_gold.latency")`."""
        from relevo.pipeline.lake.sql import query as answered

        self.must_exist()
        return answered(self.storage, query)

    def arrow(self, table: str, keys: Iterable[str] | None = None, columns: list[str] | None = None) -> Any:
        """The table without a JVM; None when it has no rows."""
        files = [file for file in self.table(table).files(keys) if file.rows]
        schema = self.log(table).schema()
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        parts = [fitted(self.arrow_file(table, file.path, schema.names), schema) for file in files]
        return pa.concat_tables(parts) if parts else None

    def staged_arrow(self, staged: Staged, columns: list[str]) -> Any:
        """Some columns of what is staged, without a JVM."""
        return pa.concat_tables([self.arrow_file(staged.spec.name, path, columns) for path in staged.paths])

    def arrow_file(self, table: str, path: str, columns: list[str] | None = None) -> Any:
        """One file of a table, as it was written."""
        folder = self.folder(table)
        with _naming(table, f"{folder.uri}/{path}"):
            return parquet.read(folder, path, columns)

    # --- writing -------------------------------------------------------------------------------------------------------

    def stage(self, table: str, rows: DataFrame, part: Any, keys: Iterable[str] = (), *, day: Any = None) -> Staged:
        """Writes `rows` by the partition number in `part`, and by the day number in `day` where the table is cut by days too
        (both Columns). Partitions in `keys` are there even when empty."""
        from pyspark.sql import functions as F
        from pyspark.sql.pandas.types import to_arrow_schema

        spec = spec_named(table)
        schema = self._wanted(spec, to_arrow_schema(rows.schema, timezone="UTC"))
        placed = rows.withColumn(PART, part.cast("bigint"))
        placed = placed.withColumn(DAY, (F.lit(None) if day is None else day).cast("bigint"))
        staged = self._placed(spec, placed, schema, keys)
        return replace(staged, schema=schema) if spec.layer == OWN else staged

    def stage_again(self, staged: Staged, spark: SparkSession, change: Callable[[DataFrame], DataFrame]) -> Staged:
        """What is staged, with its rows changed; each stays in its partition. The files from before are thrown away."""
        from pyspark.sql import functions as F

        spec, places = staged.spec, dict[tuple[str, int | None], list[str]]()
        for files in staged.files.values():
            for file in files:
                places.setdefault((file.key, file.day), []).append(file.path)
        frames = [
            self.frame(spark, spec.name, paths, staged.schema)
            .withColumn(PART, F.lit(part_number(key, spec.span)).cast("bigint"))
            .withColumn(DAY, F.lit(day).cast("bigint"))
            for (key, day), paths in places.items()
        ]
        rows = change(reduce(lambda one, other: one.unionByName(other), frames))
        schema = self.log(spec.name).schema() if staged.schema is None else staged.schema
        again = self._placed(spec, rows, schema, staged.files)
        self.throw_away(staged)
        return replace(again, schema=staged.schema)

    def _placed(self, spec: TableSpec, rows: DataFrame, schema: Any, keys: Iterable[str]) -> Staged:
        """Writes rows that know their partition."""
        write = parquet.writing(self.folder(spec.name), spec.span, schema)
        return self._staged(spec, (Written(*row) for row in rows.mapInArrow(write, WRITTEN).collect()), keys)

    def stage_arrow(self, table: str, parts: dict[int, Any], keys: Iterable[str] = ()) -> Staged:
        """As `stage`, for rows that are already here."""
        spec = BY_NAME[table]
        names = next(iter(parts.values())).schema if parts else pa.schema([])
        schema = self._wanted(spec, names)
        files = PartFiles(self.folder(table), spec.span, schema)
        for part, rows in parts.items():
            if rows.num_rows:
                files.add(part, None, fitted(rows, schema))
        return self._staged(spec, files.close(), keys)

    def stage_files(self, table: str, written: Iterable[Written]) -> Staged:
        """As `stage`, for files that tasks have written where they stay."""
        spec, found = BY_NAME[table], list(written)
        for file in found:
            if self.storage.is_local and self.folder(table).size(file.path) is None:
                raise FilesNotShared(table=table, file=f"{self.folder(table).uri}/{file.path}")
        self._wanted(spec, spec.arrow_schema())
        return self._staged(spec, found, ())

    def commit(
        self,
        staged: Staged,
        *,
        instead: bool,
        built_from: Mapping[str, int] | None = None,
        marks: Mapping[str, int] | None = None,
        notes: Mapping[str, Any] | None = None,
        base: TableVersion | None = None,
    ) -> TableVersion:
        """Makes staged files visible, all at once: in addition to, or `instead` of, what their partitions held.

        `base` is what the writer knew of the table when it began: whoever changed the same since wins, and this raises
        `LakeChanged`. `marks` are app transactions, which say how far a writer is.
        """
        table = staged.spec.name
        numbers = {source_mark(source): version for source, version in (built_from or {}).items()} | dict(marks or {})
        known = base or self.table(table, *numbers)
        wanted = Commit(
            tuple(file for files in staged.files.values() for file in files if file.rows),
            staged.stats,
            frozenset(staged.files) if instead else frozenset(),
            marks=numbers,
            schema=staged.schema,
        )
        written = self._commit(table, wanted, known, notes)
        self.folder(table).delete([_COMPLAINT])
        return written

    def throw_away(self, staged: Staged) -> None:
        self.folder(staged.spec.name).delete(staged.paths)

    def refuse(self, staged: Staged, reasons: list[str]) -> TableBroken:
        """Throws staged files away and writes down why; the last good version stays what it is."""
        self.throw_away(staged)
        kept = self.table(staged.spec.name).version
        said = {"at_ms": time.time_ns() // 1_000_000, "reasons": reasons, "kept_version": kept}
        self.folder(staged.spec.name).write_json(_COMPLAINT, said)
        return TableBroken(table=staged.spec.name, reasons="; ".join(reasons), version=kept)

    def complaint(self, table: str) -> dict[str, Any] | None:
        """Why the table was not renewed at the last try; None when it was."""
        return self.folder(table).read_json(_COMPLAINT)

    def drop_files(self, table: str, paths: set[str], *, notes: Mapping[str, Any]) -> TableVersion:
        """A version without these files."""
        base = self.table(table)
        gone = tuple(file for file in base.files() if file.path in paths)
        return self._commit(table, Commit(remove=gone), base, notes)

    def rewrite(
        self, table: str, columns: list[str], which: Callable[[Any], list[bool]], change: Callable[[Row], Row]
    ) -> int:
        """Changes rows where they are, in a version of its own; returns how many. `which` picks them by some columns.

        The files that held them are deleted at once. The new ones keep their names' first part, so nobody takes their rows
        for new; their partitions have changed, so what is made of these is made again.
        """
        base, folder = self.table(table), self.folder(table)
        gone: list[DataFile] = []
        new: list[DataFile] = []
        stats: dict[str, str] = {}
        changed = 0
        for file in base.files():
            picked = which(self.arrow_file(table, file.path, columns))
            if any(picked):
                gone.append(file)
                changed += sum(picked)
                written = self._changed_file(table, file, picked, change)
                new.append(moved(file, written.path, written.bytes))
                stats[written.path] = written.stats
        if gone:
            self._commit(table, Commit(tuple(new), stats, remove=tuple(gone)), base, None)
            folder.delete(file.path for file in gone)
        return changed

    def _changed_file(self, table: str, file: DataFile, picked: list[bool], change: Callable[[Row], Row]) -> Written:
        """Writes a file with the picked rows changed beside the old one."""
        rows = self.arrow_file(table, file.path)
        new = pa.Table.from_pylist([change(row) for row in rows.filter(pa.array(picked)).to_pylist()], rows.schema)
        whole = pa.concat_tables([rows.filter(pa.array([not one for one in picked])), new])
        folder, _, _ = file.path.rpartition("/")
        path = f"{folder}/{file.token}.{uuid.uuid4().hex[:8]}.parquet".lstrip("/")
        return parquet.write(self.folder(table), path, whole, part_number(file.key, BY_NAME[table].span), file.day)

    # --- what they share -----------------------------------------------------------------------------------------------

    def _commit(self, table: str, wanted: Commit, base: TableVersion, notes: Mapping[str, Any] | None) -> TableVersion:
        """One commit, with its notes: they lie in a file of a new name, and the commit says which."""
        log, folder = self.log(table), self.folder(table)
        if notes is None:
            return log.commit(wanted, base)
        while True:
            before = base.marks.get(NOTES_MARK)
            old = {} if before is None else folder.read_json(f"{NOTES}/{before}.json") or {}
            # Numbers rise, and no two writers have the same one.
            pointer = (((before or 0) >> 32) + 1 << 32) | random.getrandbits(31)
            folder.write_json(f"{NOTES}/{pointer}.json", {**old, **notes})
            try:
                written = log.commit(replace(wanted, marks={**wanted.marks, NOTES_MARK: pointer}), base)
            except LakeChanged:
                folder.delete([f"{NOTES}/{pointer}.json"])
                base = self._with_notes_of_others(table, wanted, base, {name: old.get(name) for name in notes})
                continue
            if before is not None:
                folder.delete([f"{NOTES}/{before}.json"])
            return written

    def _with_notes_of_others(
        self, table: str, wanted: Commit, base: TableVersion, ours: dict[str, Any]
    ) -> TableVersion:
        """The base for another try, when all that others changed are notes that are none of ours."""
        now, notes = self.table(table, *wanted.marks), self.notes(table)
        others = now.marks.get(NOTES_MARK) != base.marks.get(NOTES_MARK)
        same = all(now.marks.get(mark) == base.marks.get(mark) for mark in wanted.marks)
        if not others or not same or {name: notes.get(name) for name in ours} != ours:
            raise LakeChanged(table=table, version=now.version)
        return replace(base, marks={**base.marks, NOTES_MARK: now.marks[NOTES_MARK]})

    def _wanted(self, spec: TableSpec, given: Any) -> Any:
        """The columns to write: what is given, of the declared types. The table gets those it does not have yet."""
        if spec.layer == OWN:
            plain = pa.schema([pa.field(column.name, column.type) for column in given])
            self.log(spec.name).create(plain)
            return plain
        declared = spec.arrow_schema()
        fields = [
            declared.field(column.name) if column.name in declared.names else pa.field(column.name, column.type)
            for column in given
        ]
        self.log(spec.name).evolve(pa.schema(fields))
        return pa.schema([pa.field(column.name, column.type) for column in fields])

    def _staged(self, spec: TableSpec, written: Iterable[Written], keys: Iterable[str]) -> Staged:
        staged = Staged(spec, {key: [] for key in keys})
        for file in written:
            key = part_key(file.part, spec.span)
            staged.files.setdefault(key, []).append(DataFile(file.path, key, file.rows, file.bytes, file.day))
            staged.stats[file.path] = file.stats
        return staged


@contextmanager
def _naming(table: str, path: str) -> Generator[None]:
    """A file that is there in name only is told by its name: disks fail, and people tidy up."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise FileDamaged(file=path, table=table, reason=str(error).partition("\n")[0].rstrip(".")) from error
