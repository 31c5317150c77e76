"""The watch command: one streaming query over events and waiting jobs, whose state is Spark's and whose rows are alerts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from relevo.errors import DependencyMissing, NotSupportedError, WatchFailed, WorkersFailed
from relevo.pipeline.cause import cause_of, worker_failure
from relevo.pipeline.commands.ingest import checkpoints, folder_of
from relevo.pipeline.commands.tries import Tries
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.lake.bronze.events import clean, is_platform
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.watch.alert import DDL, Alert
from relevo.pipeline.watch.delivery import AlertQueue, Webhook
from relevo.pipeline.watch.processor import COLUMNS, WatchProcessor
from relevo.pipeline.watch.rules import Rules

log = logging.getLogger("relevo.pipeline")

Told = Callable[[Sequence[Alert]], None]

_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
_LOOKS_S = 1
_PARTITIONS = "spark.sql.shuffle.partitions"


class Watch:
    """Watches queues until it is stopped. What it knows lies in the checkpoint: another run goes on with it."""

    def __init__(
        self,
        spark: SparkSession,
        rules: Rules,
        *,
        checkpoint: Storage,
        queue: AlertQueue | None = None,
        webhook: Webhook | None = None,
        told: Told = lambda _: None,
        tries: Tries | None = None,
    ) -> None:
        require_state()
        self._spark = spark
        self._rules = rules
        self._checkpoint = checkpoint
        self._queue = queue
        self._webhook = webhook
        self._told = told
        self._tries = tries or Tries()
        self._batches = 0
        self.alerts = 0
        """How many were told."""

    def once(self, options: Mapping[str, str] | None = None) -> int:
        """Looks at what there is now, and at what is due by now."""
        return self._run({"availableNow": True}, dict(options or {}), lambda: False)

    def follow(
        self, options: Mapping[str, str] | None = None, *, every_s: float = 10.0, stop: Callable[[], bool]
    ) -> int:
        """Looks every few seconds, until `stop` says so."""
        return self._run({"processingTime": f"{every_s} seconds"}, dict(options or {}), stop)

    def _run(self, trigger: dict[str, Any], options: dict[str, str], stop: Callable[[], bool]) -> int:
        SourceOptions.parse(options)
        try:
            self._tries.run(
                lambda: self._query(trigger, options, stop), "the watch", progress=lambda: self._batches, stop=stop
            )
        except WorkersFailed as error:
            raise WatchFailed(reason=str(error).rstrip(".")) from error
        except StreamingQueryException as error:
            if not (stop() and worker_failure(error)):  # Ctrl-C in a terminal also reaches the workers
                raise WatchFailed(reason=cause_of(error)) from error
        return self.alerts

    def _query(self, trigger: dict[str, Any], options: dict[str, str], stop: Callable[[], bool]) -> None:
        with _settings(self._spark):
            query = (
                self._watched(options)
                .writeStream.queryName("relevo watch")
                .option("checkpointLocation", self._checkpoint.for_spark)
                .foreachBatch(self._tell)
                .outputMode("append")
                .trigger(**trigger)
                .start()
            )
        once = "availableNow" in trigger
        try:
            while not query.awaitTermination(_LOOKS_S) and not stop():
                if once and _caught_up(query):
                    break
        finally:
            query.stop()

    def _watched(self, options: dict[str, str]) -> DataFrame:
        events = clean(self._followed({**options, "what": "events"}))
        # Most adds are told by nobody: what waits is seen in the stream itself. Who is gone from it is not missing.
        entries = self._followed({**options, "what": "stream", "failOnDataLoss": "false"})
        place = F.split("_id", "-")
        waiting = entries.where("job_id IS NOT NULL").select(
            F.coalesce("source", F.lit("")).alias("source"),
            "queue",
            "job_id",
            F.coalesce("name", F.lit("")).alias("name"),
            F.lit("waiting").alias("e"),
            F.unix_millis("_ts").alias("at_ms"),
            place[0].cast("decimal(20,0)").alias("turn"),
            place[1].cast("decimal(20,0)").alias("turn_seq"),
            F.lit(0).cast("bigint").alias("pause_ms"),
            F.lit("").alias("subscription"),
        )
        both = events.select(*waiting.columns).unionByName(waiting).where(~is_platform(F.col("queue")))
        if self._queue is not None:
            both = both.where(F.col("queue") != self._queue.queue)  # an alert about an alert would never end
        rows = both.select(
            "source",
            "queue",
            *(
                F.col(name).cast("bigint") if name.startswith("turn") else F.col(name)
                for name in COLUMNS
                if name != "pause_ms"
            ),
            F.coalesce("pause_ms", F.lit(0).cast("bigint")).alias("pause_ms"),
        )
        grouped: Any = rows.groupBy("source", "queue")
        return grouped.transformWithState(WatchProcessor(self._rules), DDL, "Append", "ProcessingTime")

    def _followed(self, options: Mapping[str, str]) -> DataFrame:
        return self._spark.readStream.format("relevo").options(**options).load()

    def _tell(self, rows: DataFrame, number: int) -> None:
        alerts = sorted((Alert(**row.asDict()) for row in rows.collect()), key=lambda each: (each.at_ms, each.told_id))
        if alerts:
            if self._queue is not None:
                query = self._checkpoint.read_json("metadata")["id"]
                self._queue.send(alerts, f"watch-{query}", number)
            if self._webhook is not None:
                self._webhook.send(alerts)
            self._told(alerts)
        self.alerts += len(alerts)
        self._batches += 1


def _caught_up(query: StreamingQuery) -> bool:
    """Whether all events are read that were there at the start. A query with timers of the clock goes on after that, with
    batches that have none: it does not end by itself. The first such batch may be one that an earlier run has planned."""
    return len({each["batchId"] for each in query.recentProgress if each["numInputRows"] == 0}) > 1


def checkpoint_of(lake: Lake, options: Mapping[str, str], given: str | None = None) -> Storage:
    """Where the watch over one source keeps what it knows."""
    return checkpoints(lake, given, "_watch").below(f"watch-{folder_of(SourceOptions.parse(options).source)}")


def require_state() -> None:
    """Says what is missing for a query that keeps state in Python."""
    from importlib.util import find_spec

    from pyspark.sql.group import GroupedData

    if not hasattr(GroupedData, "transformWithState"):
        raise NotSupportedError("the watch: transformWithState came with Spark 4.1. Use a newer pyspark.")
    if find_spec("google.protobuf") is None:
        raise DependencyMissing(what="the watch", package="protobuf", extra="relevo[spark]")


@contextmanager
def _settings(spark: SparkSession) -> Generator[None]:
    """What a query takes from its session when it starts. A checkpoint keeps the number of partitions it began with."""
    wanted = {**_SETTINGS, _PARTITIONS: str(min(4, spark.sparkContext.defaultParallelism))}
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
