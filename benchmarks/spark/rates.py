"""How many rows a second: raw reading, batch and streaming ingest, our own bulk add, and the sink; in interleaved rounds."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from benchmarks.figures import Figures
from benchmarks.spark.streams import RawReaders, bulk_add, drain, drop, fill
from relevo.pipeline.commands.ingest import Ingest
from relevo.pipeline.lake.lake import Lake
from tests.spark.footprint import cpu_s

QUEUE = "bench"
RAW, BATCH, STREAMING, BULK, SINK, BATCH_ROWS, STREAMING_ROWS, FEW, MANY, DRAIN, CONSUME = CASES = (
    *("raw reading", "batch ingest", "streaming ingest", "bulk add", "sink"),
    *("batch, by rows", "streaming, by rows", "ingest of one queue", "ingest of 1,000 queues"),
    *("worker's drain", "consume"),
)
QUEUES = 1_000
PROGRAMS = ("Redis", "Python", "JVM")
ROWS_A_TRIGGER = 500_000
JOBS_A_TRIGGER, JOBS_A_TASK = 100_000, 25_000


class Rates:
    """The cases; each does one round and tells how many rows it moved in how many seconds."""

    def __init__(self, url: str, spark: Any, folder: Path, *, events: int, jobs: int) -> None:
        self._url = url
        self._spark = spark
        self._folder = folder
        self._events = events
        self._jobs = jobs
        self._number = 0
        self._each = max(1, events // 10 // QUEUES)
        """Events of each of many queues; one queue has as many as all of them."""
        self._raw: RawReaders | None = None
        self._before: dict[str, float] = {}
        """Processor time by program when the case under way began."""

    def run(self, figures: Figures, rounds: int, tell: Callable[[str], None], only: Collection[str] = CASES) -> None:
        cases: dict[str, Callable[[], tuple[int, float]]] = {
            RAW: self._raw_reading,
            BATCH: self._batch_ingest,
            STREAMING: self._streaming_ingest,
            BULK: self._bulk_add,
            SINK: self._sink,
            BATCH_ROWS: self._batch_by_rows,
            STREAMING_ROWS: self._streaming_by_rows,
            FEW: lambda: self._ingest_all("few"),
            MANY: lambda: self._ingest_all("many-*"),
            DRAIN: self._drain,
            CONSUME: self._consume,
        }
        cases = {name: case for name, case in cases.items() if name in only}
        if cases.keys() & {RAW, BATCH, STREAMING, BATCH_ROWS, STREAMING_ROWS}:
            fill(self._url, QUEUE, self._events)
        if RAW in cases:
            self._raw = RawReaders(self._url, QUEUE)
        if cases.keys() & {FEW, MANY}:
            fill(self._url, "few", self._each * QUEUES)
            for number in range(QUEUES):
                fill(self._url, f"many-{number:04}", self._each)
        for number in range(rounds + 1):  # the first is for the JVM, which compiles what it meets often
            for name, case in cases.items():
                self._before = cpu_s()
                rows, seconds = case()
                after, before = cpu_s(), self._before
                tell(f"round {number or 'to get warm'}: {name}, {rows / seconds:,.0f} rows a second")
                if number:
                    figures.note(name, "rate", rows / seconds)
                    for program in PROGRAMS:
                        spent = after.get(program, 0.0) - before.get(program, 0.0)
                        figures.note(name, f"{program} µs", spent / rows * 1e6)

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()

    def _raw_reading(self) -> tuple[int, float]:
        assert self._raw is not None
        began = time.perf_counter()
        assert self._raw.read() == self._events
        return self._events, time.perf_counter() - began

    def _batch_ingest(self) -> tuple[int, float]:
        folder, began = self._place("table"), time.perf_counter()
        options = {"url": self._url, "queues": QUEUE, "landing": folder}
        files = self._spark.read.format("relevo").options(**options).load().collect()
        took = time.perf_counter() - began
        assert sum(file.rows for file in files) == self._events
        return self._checked(folder, took)

    def _streaming_ingest(self) -> tuple[int, float]:
        lake, began = Lake(self._place("lake")), time.perf_counter()
        options = {"url": self._url, "queues": QUEUE, "maxRowsPerTrigger": str(ROWS_A_TRIGGER)}
        taken = Ingest(lake, self._spark).once(options)
        took = time.perf_counter() - began
        assert taken == lake.table("bronze.events").rows == self._events
        shutil.rmtree(lake.root)
        return taken, took

    def _ingest_all(self, queues: str) -> tuple[int, float]:
        lake, began = Lake(self._place("lake")), time.perf_counter()
        taken = Ingest(lake, self._spark).once({"url": self._url, "queues": queues})
        took = time.perf_counter() - began
        assert taken == self._each * QUEUES
        shutil.rmtree(lake.root)
        return taken, took

    def _batch_by_rows(self) -> tuple[int, float]:
        table, began = self._place("table"), time.perf_counter()
        self._spark.read.format("relevo").options(url=self._url, queues=QUEUE).load().write.parquet(table)
        return self._checked(table, time.perf_counter() - began)

    def _streaming_by_rows(self) -> tuple[int, float]:
        table, checkpoint = self._place("table"), self._place("checkpoint")
        options = {"url": self._url, "queues": QUEUE, "maxRowsPerTrigger": str(ROWS_A_TRIGGER)}
        began = time.perf_counter()
        rows = self._spark.readStream.format("relevo").options(**options).load()
        writing = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        writing.trigger(availableNow=True).start(table).awaitTermination()
        return self._checked(table, time.perf_counter() - began)

    def _bulk_add(self) -> tuple[int, float]:
        return self._jobs, bulk_add(self._url, "added", self._jobs)

    def _sink(self) -> tuple[int, float]:
        self._number += 1
        queue = f"sink-{self._number}"
        rows = self._spark.range(0, self._jobs, 1, 2)
        rows = rows.selectExpr("'mail' as name", """concat('{"to":"user-', id, '","n":', id, '}') as data""").cache()
        rows.count()
        writer = rows.write.format("relevo").options(url=self._url, queue=queue, maxStreamLen="100000000")
        began = time.perf_counter()
        writer.mode("append").save()
        took = time.perf_counter() - began
        rows.unpersist()
        drop(self._url, queue, self._jobs)
        return self._jobs, took

    def _drain(self) -> tuple[int, float]:
        queue = self._waiting()
        took = drain(self._url, queue, self._jobs)
        drop(self._url, queue, 0)
        return self._jobs, took

    def _consume(self) -> tuple[int, float]:
        queue, checkpoint = self._waiting(), self._place("checkpoint")
        options = {"url": self._url, "queue": queue, "mode": "consume"}
        options |= {"maxRowsPerTrigger": str(JOBS_A_TRIGGER), "rowsPerPartition": str(JOBS_A_TASK)}
        began = time.perf_counter()
        jobs = self._spark.readStream.format("relevo").options(**options).load()
        taking = jobs.writeStream.format("noop").option("checkpointLocation", checkpoint)
        taking.trigger(availableNow=True).start().awaitTermination()
        took = time.perf_counter() - began
        drop(self._url, queue, 0)
        return self._jobs, took

    def _waiting(self) -> str:
        """A queue with jobs that nobody has taken."""
        self._number += 1
        queue = f"taken-{self._number}"
        bulk_add(self._url, queue, self._jobs, keep=True)
        self._before = cpu_s()  # to fill it is no part of the case
        return queue

    def _checked(self, table: str, seconds: float) -> tuple[int, float]:
        assert self._spark.read.parquet(table).count() == self._events
        shutil.rmtree(table)
        return self._events, seconds

    def _place(self, name: str) -> str:
        self._number += 1
        return str(self._folder / f"{name}-{self._number}")
