"""The ingest command: events from Redis into bronze.events, every one once, whatever is killed in between.

Tasks write what they read straight to Parquet, and tell which files these are. Spark writes the end of a batch into its
checkpoint before it reads it; the batch's number goes into the table's log as an app transaction, in the commit that makes its
files visible. A batch that comes again after a crash is known by its number and passed over. The commit also keeps how far each
stream was read: a checkpoint that was lost or thrown away doubles nothing. So the query may begin again at any point, and does
when one of Spark's Python processes failed it.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from relevo.errors import IngestFailed, WorkersFailed
from relevo.pipeline.cause import cause_of, worker_failure
from relevo.pipeline.commands.rows_behind import Behind, BehindWatch
from relevo.pipeline.commands.tries import Tries
from relevo.pipeline.connector.offsets import EntryId
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.lake.files import Written
from relevo.pipeline.lake.instant_columns import part_of
from relevo.pipeline.lake.lake import Lake, Staged
from relevo.pipeline.lake.storage import Storage

TABLE = "bronze.events"
ROWS_A_BATCH = 500_000

Marks = dict[str, list[int]]
"""The last entry taken of each stream, as [ms, seq]."""


@dataclass(frozen=True)
class Batch:
    """What one batch brought."""

    number: int
    rows: int
    total: int
    seconds: float


Taken = Callable[[Batch], None]


class Ingest:
    """Ingests into one lake. `taken` hears of each batch, `behind` how many events it left in Redis. `checkpoint` is where
    Spark keeps how far it is: by default in the lake, beside the table, or, for a lake that is not on this machine, in this
    user's folder for states. Spark needs no jar for the lake then."""

    def __init__(
        self,
        lake: Lake,
        spark: SparkSession,
        *,
        taken: Taken = lambda _: None,
        behind: Behind = lambda _: None,
        tries: Tries | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self._lake = lake
        self._spark = spark
        self._taken = taken
        self._behind = behind
        self._tries = tries or Tries()
        self._batches = 0
        self.rows = 0
        """New events so far."""
        self._source = ""
        self._given = checkpoint

    def once(self, options: Mapping[str, str] | None = None) -> int:
        """Takes what is there now, in batches, and returns how many events were new. Options are those of the source."""
        return self._run({"availableNow": True}, dict(options or {}))

    def follow(
        self,
        options: Mapping[str, str] | None = None,
        *,
        every_s: float = 10.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> int:
        """Takes what comes, until `stop` says so."""
        return self._run({"processingTime": f"{every_s} seconds"}, dict(options or {}), stop)

    def _run(self, trigger: dict[str, Any], options: dict[str, str], stop: Callable[[], bool] | None = None) -> int:
        options = {"maxRowsPerTrigger": str(ROWS_A_BATCH), **options, "landing": self._lake.folder(TABLE).uri}
        self._source = SourceOptions.parse(options).source
        asked = stop or (lambda: False)
        try:
            self._tries.run(
                lambda: self._query(trigger, options, stop), "the ingest", progress=lambda: self._batches, stop=asked
            )
        except WorkersFailed as error:
            raise IngestFailed(reason=str(error).rstrip(".")) from error
        except StreamingQueryException as error:
            # Ctrl-C in a terminal also reaches the workers, which may end before the query does.
            if not (asked() and worker_failure(error)):
                raise IngestFailed(reason=cause_of(error)) from error
        return self.rows

    @property
    def _checkpoint(self) -> Storage:
        """Each source has its own: how far one is read says nothing of another."""
        return checkpoints(self._lake, self._given).below(folder_of(self._source))

    def _query(self, trigger: dict[str, Any], options: dict[str, str], stop: Callable[[], bool] | None) -> None:
        """One query from its start to its end."""
        if stop is not None and stop():
            return
        source = self._spark.readStream.format("relevo").options(**options).load()
        query = (
            source.writeStream.queryName(f"relevo ingest {self._lake.storage.name}")
            .option("checkpointLocation", self._checkpoint.for_spark)
            .foreachBatch(self._take)
            .trigger(**trigger)
            .start()
        )
        watch = BehindWatch(self._source, self._behind)
        try:
            while not query.awaitTermination(1) and not (stop is not None and stop()):
                watch.look(query)
            watch.look(query)
        finally:
            query.stop()

    def _take(self, files: DataFrame, number: int) -> None:
        began = time.monotonic()
        lake = self._lake
        # Spark gives a query its id together with its checkpoint: another checkpoint counts its batches anew.
        query = self._checkpoint.read_json("metadata")["id"]
        batch = f"relevo.ingest.{query}"
        base, notes = lake.table(TABLE, batch), lake.notes(TABLE)
        # A lake of an earlier version knows one source, which had no name.
        key, named = f"source {self._source}", any(name.startswith("source ") for name in notes)
        noted: dict[str, Any] = notes.get(key, {}) if named else notes
        same, last = noted.get("query") == query, base.marks.get(batch, -1)
        if number <= last:
            return  # its rows are visible already; only Spark's own note of it was lost
        marks: Marks = noted.get("marks", {})
        # A batch begins where the one before it ended: where our batches began at the beginning, nothing comes again. After a
        # checkpoint was lost they begin there once more, and what was taken may come in any number of them.
        own = not marks or (same and number == last + 1 and noted.get("own", False))
        landed = files.collect()  # this is what makes the tasks read and write
        staged = lake.stage_files(
            TABLE, [Written(row["path"], row["day"], None, row["rows"], row["bytes"], row["stats"]) for row in landed]
        )
        if not own and staged.rows:
            staged = self._without_taken(staged, marks)
        told = {key: {"query": query, "marks": _further(marks, landed), "own": own}}
        total = lake.commit(staged, instead=False, marks={batch: number}, notes=told, base=base).rows
        self.rows += staged.rows
        self._batches += 1
        self._taken(Batch(number, staged.rows, total, time.monotonic() - began))

    def _without_taken(self, staged: Staged, marks: Marks) -> Staged:
        """The same files, written again without what earlier batches have taken."""
        rows = self._lake.frame(self._spark, TABLE, staged.paths).where(_after(marks))
        kept = self._lake.stage(TABLE, rows, part_of(F.coalesce(F.unix_millis("_ts"), F.lit(0)), "day"))
        self._lake.throw_away(staged)
        return kept


def checkpoints(lake: Lake, given: str | os.PathLike[str] | None, folder: str = "bronze/_checkpoint") -> Storage:
    """Where queries on this lake keep how far they are: in it, if it is a folder here."""
    if given is not None:
        return Storage.at(given)
    if lake.storage.is_local:
        return lake.storage.below(folder)
    states = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = hashlib.blake2b(lake.storage.uri.encode(), digest_size=8).hexdigest()
    return Storage.at(Path(states) / "relevo" / "checkpoints" / name)


def folder_of(source: str) -> str:
    """A name for the folder of one source."""
    shown = re.sub(r"[^\w.-]", "-", source)[:60]
    return f"{shown}-{hashlib.blake2b(source.encode(), digest_size=4).hexdigest()}"


def _after(marks: Marks) -> Column:
    """Entries no batch has taken yet. A stream is read in order, so one id for each tells."""
    places = F.create_map(
        *(part for stream, (ms, seq) in marks.items() for part in (F.lit(stream), F.array(_big(ms), _big(seq))))
    )
    last = places[F.col("_stream")]
    parts = F.split("_id", "-")
    ms, seq = parts[0].cast("decimal(20,0)"), parts[1].cast("decimal(20,0)")
    return last.isNull() | (ms > last[0]) | ((ms == last[0]) & (seq > last[1]))


def _big(number: int) -> Column:
    return F.lit(str(number)).cast("decimal(20,0)")


def _further(marks: Marks, landed: Iterable[Row]) -> Marks:
    """The last id of each stream, now that these files are in. Ids compare as numbers, not as text."""
    ends = {stream: EntryId(*mark) for stream, mark in marks.items()}
    for row in landed:
        for stream, text in row["last_ids"].items():
            last = EntryId.parse(text)
            ends[stream] = max(last, ends.get(stream, last))
    return {stream: [end.ms, end.seq] for stream, end in ends.items()}
