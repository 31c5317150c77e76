"""A lake: a folder of tables. Reads what manifests name, and makes a new version of a table visible in one step."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from relevo.errors import FileDamaged, FilesNotShared, NoLake, TableBroken
from relevo.pipeline.lake.instants import part_key
from relevo.pipeline.lake.manifest import DataFile, Manifest, Manifests
from relevo.pipeline.lake.tables import BY_NAME, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEEP_VERSIONS = 3
ERASED_AT = "erased_at_ms"
"""The note of bronze.messages that says when something was last erased: older versions of any table are not kept."""
_PART = "_part"
_DRAFT = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
"""Tasks put their files where they stay: nobody looks into a draft before it is whole, and moving them once more costs."""

Row = dict[str, Any]


@dataclass
class Staged:
    """Files of a table that are written and not yet visible."""

    spec: TableSpec
    files: dict[str, list[DataFile]] = field(default_factory=dict[str, list[DataFile]])

    @property
    def rows(self) -> int:
        return sum(file.rows for files in self.files.values() for file in files)

    @property
    def paths(self) -> list[str]:
        return [file.path for files in self.files.values() for file in files]


class Lake:
    """The lake in a folder that the driver and all executors reach by the same path.

    >>> Lake("a folder that is not there yet").manifest("gold.throughput").version
    0
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()

    # --- reading -------------------------------------------------------------------------------------------------------

    def manifest(self, table: str) -> Manifest:
        return self._manifests(BY_NAME[table]).newest()

    def spec(self, table: str) -> TableSpec:
        return BY_NAME[table]

    def exists(self) -> bool:
        return any(self._manifests(spec).versions() for spec in BY_NAME.values())

    def must_exist(self) -> None:
        if not self.exists():
            raise NoLake(path=str(self.root))

    def read(
        self, spark: SparkSession, table: str, keys: Iterable[str] | None = None, *, since: int = 0
    ) -> DataFrame | None:
        """The table, or some partitions of it, or what came after a version; None when that has no files."""
        files = self.manifest(table).files(None if keys is None else set(keys), since=since)
        files = [file for file in files if file.rows]
        return self.frame(spark, table, [file.path for file in files]) if files else None

    def frame(self, spark: SparkSession, table: str, paths: list[str]) -> DataFrame:
        """The rows of some files. Their columns are in the newest file's footer: read here, it costs no Spark job."""
        from pyspark.sql.types import StructType

        folder = self._folder(BY_NAME[table])
        with _naming(table, folder / paths[-1]):
            schema = pq.read_schema(folder / paths[-1]).metadata or {}
        told = schema.get(b"org.apache.spark.sql.parquet.row.metadata")
        reader = spark.read if told is None else spark.read.schema(StructType.fromJson(json.loads(told)))
        return reader.parquet(*(str(folder / path) for path in paths))

    def arrow(self, table: str, keys: Iterable[str] | None = None, columns: list[str] | None = None) -> Any:
        """The table without a JVM; None when it has no rows."""
        files = self.manifest(table).files(None if keys is None else set(keys))
        parts = [self.arrow_file(table, file.path, columns) for file in files if file.rows]
        return pa.concat_tables(parts, promote_options="default") if parts else None

    def staged_arrow(self, staged: Staged, columns: list[str]) -> Any:
        """Some columns of what is staged, without a JVM."""
        return pa.concat_tables([self.arrow_file(staged.spec.name, path, columns) for path in staged.paths])

    def arrow_file(self, table: str, path: str, columns: list[str] | None = None) -> Any:
        """One file of a table, as its manifest names it."""
        file = self._folder(BY_NAME[table]) / path
        with _naming(table, file):
            return pq.read_table(file, columns=columns, partitioning=None, coerce_int96_timestamp_unit="us")

    # --- writing -------------------------------------------------------------------------------------------------------

    def draft(self, table: str) -> Path:
        """A folder of a new name for files that are on their way into the table."""
        return self._folder(BY_NAME[table]) / "_staging" / uuid.uuid4().hex[:16]

    def stage(self, table: str, rows: DataFrame, part: Any, keys: Iterable[str] = ()) -> Staged:
        """Writes `rows` by the partition number in `part` (a Column). Partitions in `keys` are there even when empty."""
        spec = BY_NAME[table]
        draft = self.draft(table)
        rows.withColumn(_PART, part).write.options(**_DRAFT).partitionBy(_PART).parquet(str(draft))
        return self._adopted(spec, draft, keys)

    def stage_arrow(self, table: str, parts: dict[int, Any], keys: Iterable[str] = ()) -> Staged:
        """As `stage`, for rows that are already here."""
        spec = BY_NAME[table]
        draft = self.draft(table)
        for part, rows in parts.items():
            (draft / f"{_PART}={part}").mkdir(parents=True)
            pq.write_table(rows, draft / f"{_PART}={part}" / "part-0.parquet", compression="zstd")
        draft.mkdir(parents=True, exist_ok=True)
        return self._adopted(spec, draft, keys)

    def stage_files(self, table: str, written: Iterable[tuple[int, Path]]) -> Staged:
        """As `stage`, for Parquet files that are written already: the partition number of each, and where it lies."""
        spec, by_key, name = BY_NAME[table], dict[str, list[Path]](), uuid.uuid4().hex[:16]
        for part, file in written:
            if not file.exists():
                raise FilesNotShared(table=table, file=str(file))
            by_key.setdefault(part_key(part, spec.span), []).append(file)
        return Staged(spec, {key: self._moved(spec, files, key, name) for key, files in by_key.items()})

    def commit(
        self,
        staged: Staged,
        *,
        instead: bool,
        built_from: dict[str, int] | None = None,
        notes: dict[str, Any] | None = None,
        covers: dict[str, set[int]] | None = None,
        base: Manifest | None = None,
    ) -> Manifest:
        """Makes staged files visible, all at once: in addition to, or `instead` of, what their partitions held."""
        manifests = self._manifests(staged.spec)
        old = base or manifests.newest()
        new = old.with_files(staged.files, instead=instead, covers=covers or {})
        written = manifests.write(
            replace(new, built_from={**old.built_from, **(built_from or {})}, notes={**old.notes, **(notes or {})})
        )
        self._complaint(staged.spec).unlink(missing_ok=True)
        return written

    def throw_away(self, staged: Staged) -> None:
        for path in staged.paths:
            (self._folder(staged.spec) / path).unlink(missing_ok=True)

    def refuse(self, staged: Staged, reasons: list[str]) -> TableBroken:
        """Throws staged files away and writes down why; the last good version stays what it is."""
        folder = self._folder(staged.spec)
        self.throw_away(staged)
        kept = self.manifest(staged.spec.name).version
        said = {"at_ms": time.time_ns() // 1_000_000, "reasons": reasons, "kept_version": kept}
        draft = folder / f".broken-{uuid.uuid4().hex}"
        draft.write_text(json.dumps(said))
        draft.replace(self._complaint(staged.spec))
        return TableBroken(table=staged.spec.name, reasons="; ".join(reasons), version=kept)

    def complaint(self, table: str) -> dict[str, Any] | None:
        """Why the table was not renewed at the last try; None when it was."""
        path = self._complaint(BY_NAME[table])
        return json.loads(path.read_text()) if path.exists() else None

    def drop_files(self, table: str, paths: set[str], *, notes: dict[str, Any], base: Manifest) -> Manifest:
        """A version without these files."""
        partitions = {
            key: replace(
                partition,
                files=tuple(file for file in partition.files if file.path not in paths),
                changed_in=base.version + 1
                if any(file.path in paths for file in partition.files)
                else partition.changed_in,
            )
            for key, partition in base.partitions.items()
        }
        new = replace(base, version=base.version + 1, partitions=partitions, notes={**base.notes, **notes})
        return self._manifests(BY_NAME[table]).write(new)

    def rewrite(
        self, table: str, columns: list[str], which: Callable[[Any], list[bool]], change: Callable[[Row], Row]
    ) -> int:
        """Changes rows where they are, in a version of its own; returns how many. `which` picks them by some columns.

        The files that held them are deleted at once, with the versions that name them. The new ones came when the old ones
        did, so nobody takes their rows for new; their partitions have changed, so what is made of these is made again.
        """
        manifests = self._manifests(BY_NAME[table])
        old = manifests.newest()
        partitions = dict(old.partitions)
        gone: list[str] = []
        changed = 0
        for key, partition in old.partitions.items():
            files: list[DataFile] = []
            for file in partition.files:
                picked = which(self.arrow_file(table, file.path, columns))
                if any(picked):
                    gone.append(file.path)
                    changed += sum(picked)
                    file = replace(file, **self._changed_file(table, file.path, picked, change))
                files.append(file)
            if files != list(partition.files):
                partitions[key] = replace(partition, files=tuple(files), changed_in=old.version + 1)
        if gone:
            manifests.write(replace(old, version=old.version + 1, partitions=partitions))
            manifests.forget(keep=1)
            for path in gone:
                (self._folder(BY_NAME[table]) / path).unlink(missing_ok=True)
        return changed

    def _changed_file(
        self, table: str, path: str, picked: list[bool], change: Callable[[Row], Row]
    ) -> dict[str, str | int]:
        """Writes a file with the picked rows changed beside the old one."""
        rows = self.arrow_file(table, path)
        new = pa.Table.from_pylist([change(row) for row in rows.filter(pa.array(picked)).to_pylist()], rows.schema)
        whole = pa.concat_tables([rows.filter(pa.array([not one for one in picked])), new])
        folder = self._folder(BY_NAME[table])
        # Spark reads the times of its files only as it wrote them.
        footer = pq.read_metadata(folder / path).schema
        int96 = any(footer.column(number).physical_type == "INT96" for number in range(len(footer)))
        name = f"{path.partition('/')[0]}/{uuid.uuid4().hex[:16]}-0000.parquet"
        pq.write_table(whole, folder / name, compression="zstd", use_deprecated_int96_timestamps=int96)
        return {"path": name, "bytes": (folder / name).stat().st_size}

    # --- upkeep --------------------------------------------------------------------------------------------------------

    def vacuum(self, table: str, *, keep: int = KEEP_VERSIONS, grace_s: float = 3600.0) -> int:
        """Deletes files no kept version names, once they are old enough that no write in progress can mean them. Versions from
        before the last erasure are not kept: they may hold what was erased."""
        spec = BY_NAME[table]
        folder = self._folder(spec)
        named = self._manifests(spec).forget(
            keep=keep, since_ms=self.manifest("bronze.messages").notes.get(ERASED_AT, 0)
        )
        before = time.time() - grace_s
        gone = 0
        for file in folder.rglob("*"):
            path = str(file.relative_to(folder))
            ours = path == "_broken.json" or path.startswith("_manifest/") or path in named
            if not ours and file.is_file() and file.stat().st_mtime < before:
                file.unlink(missing_ok=True)
                gone += 1
        return gone

    def compact(self, spark: SparkSession, table: str, *, upto: int, least: int = 8) -> int:
        """Makes one file of many in every partition with at least `least` files that came up to version `upto`.

        The rows stay the same, so nothing that was built from them has to be built again. What readers of this table have
        not taken yet (files after `upto`) is left alone: a merged file must not look new to them.
        """
        manifests = self._manifests(BY_NAME[table])
        old = manifests.newest()
        partitions = dict(old.partitions)
        merged = 0
        for key, partition in old.partitions.items():
            small = [file for file in partition.files if file.added_in <= upto]
            if len(small) < least:
                continue
            rows = self.frame(spark, table, [file.path for file in small])
            draft = self.draft(table)
            goal = max(1, sum(file.bytes for file in small) // (256 << 20))
            rows.coalesce(int(goal)).write.parquet(str(draft))
            moved = self._moved(BY_NAME[table], draft.glob("*.parquet"), key, draft.name)
            shutil.rmtree(draft)
            assert sum(file.rows for file in moved) == sum(file.rows for file in small)
            stamped = [replace(file, added_in=max(file.added_in for file in small)) for file in moved]
            rest = [file for file in partition.files if file.added_in > upto]
            partitions[key] = replace(partition, files=(*stamped, *rest))
            merged += len(small)
        if merged:
            manifests.write(replace(old, version=old.version + 1, partitions=partitions))
        return merged

    # --- the folder ----------------------------------------------------------------------------------------------------

    def _adopted(self, spec: TableSpec, draft: Path, keys: Iterable[str]) -> Staged:
        staged = Staged(spec, {key: [] for key in keys})
        for entry in sorted(draft.iterdir()):
            if entry.is_dir() and entry.name.startswith(f"{_PART}="):
                key = part_key(int(entry.name.partition("=")[2]), spec.span)
                staged.files.setdefault(key, []).extend(self._moved(spec, entry.glob("*.parquet"), key, draft.name))
        shutil.rmtree(draft)
        return staged

    def _moved(self, spec: TableSpec, written: Iterable[Path], key: str, name: str) -> list[DataFile]:
        """Takes Parquet files from where they were written to where they stay; nobody sees them until a manifest says so."""
        target = self._folder(spec) / key
        target.mkdir(parents=True, exist_ok=True)
        files: list[DataFile] = []
        for number, file in enumerate(sorted(written)):
            path = f"{key}/{name}-{number:04d}.parquet"
            rows = pq.read_metadata(file).num_rows
            size = file.stat().st_size
            file.replace(self._folder(spec) / path)
            if rows:
                files.append(DataFile(path, rows, size, 0))
        return files

    def _manifests(self, spec: TableSpec) -> Manifests:
        return Manifests(self._folder(spec) / "_manifest", spec.name, spec.schema_version)

    def _complaint(self, spec: TableSpec) -> Path:
        return self._folder(spec) / "_broken.json"

    def _folder(self, spec: TableSpec) -> Path:
        return self.root.joinpath(*spec.name.split("."))


@contextmanager
def _naming(table: str, file: Path) -> Generator[None]:
    """A file that is there in name only is told by its name: disks fail, and people tidy up."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise FileDamaged(file=str(file), table=table, reason=str(error).partition("\n")[0].rstrip(".")) from error
