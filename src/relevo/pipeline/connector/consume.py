"""`spark.readStream.format("relevo").option("mode", "consume")`: a streaming query as a worker of one queue.

Each micro-batch is a consumer of the queue's group, named by the offset: what is pending for it is the batch, so a batch
that Spark plans again after a crash is what is still to be done of it. Spark asks for the next offset only once the batch
before is in its log of commits; that is when its jobs are settled, while the next batch runs (`commit` comes later, with the
next batch that has rows).
The driver renews the leases meanwhile. When it dies nobody does, and the jobs run again: here, or by another worker.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from relevo.engine.batch_consumer import NEVER_TRUSTED, BatchConsumer, TakenJobs
from relevo.errors import BadArgument, RelevoError
from relevo.pipeline.connector.connection import Directory, Reply
from relevo.pipeline.connector.job_rows import JobRows
from relevo.pipeline.connector.options import ConnectionOptions, Given, connection_names, connection_of
from relevo.pipeline.connector.spark_api import HAS_READ_LIMITS, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from relevo.pipeline.connector.streams import register
from relevo.pipeline.source_columns import STREAM, Column, ddl
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.spark")

TAKEN_BY = "_taken_by"
COLUMNS = (*STREAM, Column(TAKEN_BY, "string", "the consumer that holds the job: the micro-batch"))
_OPTIONS = ("mode", "queue", "group", "maxRowsPerTrigger", "rowsPerPartition", "leaseSeconds", "payload")
_PAGE = 1000
_TASKS = 16
"""A task costs tens of milliseconds whatever it does: a large batch has larger tasks, and not more of them than this."""


@dataclass(frozen=True)
class ConsumeOptions:
    """Which jobs to take, how many at once, and for how long to hold them without a sign of life."""

    connection: ConnectionOptions
    queue: str
    group: str = "default"
    max_jobs: int = 10_000
    jobs_per_partition: int = 1000
    lease_s: float = 30.0
    raw_payload: bool = False

    @staticmethod
    def parse(options: Mapping[str, str]) -> ConsumeOptions:
        given = Given(options, (*connection_names(), *_OPTIONS))
        queue = given.text("queue", "")
        if not queue:
            raise given.bad("queue", "a query takes the jobs of one queue", 'Write .option("queue", "emails").')
        max_jobs = given.number("maxRowsPerTrigger") or 10_000
        return ConsumeOptions(
            connection=connection_of(given),
            queue=queue,
            group=given.text("group", "default"),
            max_jobs=max_jobs,
            jobs_per_partition=given.number("rowsPerPartition") or max(1000, max_jobs // _TASKS),
            lease_s=float(given.number("leaseSeconds") or 30),
            raw_payload=given.one_of("payload", ("json", "raw")) == "raw",
        )

    @property
    def ddl(self) -> str:
        return ddl(COLUMNS, raw_payload=self.raw_payload)

    def directory(self) -> Directory:
        return Directory(self.connection.address(), timeout_s=self.connection.timeout_s)

    def consumer(self, directory: Directory, name: str) -> BatchConsumer:
        return BatchConsumer(
            lambda data, count: ask(directory, QueueKeys(self.queue).stream, data, count),
            self.queue,
            group=self.group,
            consumer=name,
            idle_s=self.lease_s,
        )


class TakenRange(InputPartition):
    """Jobs of one batch from one entry to another, for one task."""

    def __init__(self, taken_by: str, first: str, last: str) -> None:
        self.taken_by = taken_by
        self.first = first
        self.last = last


class ConsumeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of one streaming query. An offset is `{"taker": a name for the query, "batch": a number}`."""

    def __init__(self, options: ConsumeOptions, schema: Any) -> None:
        if not HAS_READ_LIMITS:
            remedy = "Use Spark 4.2 or newer, or read with what=stream."
            raise BadArgument(
                argument="mode", value="consume", reason="this Spark does not tell a batch's start", remedy=remedy
            )
        self.options = options
        self._schema = schema
        self._driver: _Driver | None = None

    # --- on the driver ---------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"taker": secrets.token_hex(6), "batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.options.max_jobs)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._open().stop_after_what_waits()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        driver, taker, batch = self._open(), str(start["taker"]), int(start["batch"])
        driver.settle(taker, batch)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.max_jobs
        if driver.take(taker, batch + 1, most):
            return {**start, "batch": batch + 1}
        driver.wait_for_settles()  # Spark may ask for nothing more
        return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        driver, taker, begun = self._open(), str(end["taker"]), int(start["batch"])
        driver.settle(taker, begun)  # committed, but perhaps not settled by a driver that died
        return [part for batch in range(begun + 1, int(end["batch"]) + 1) for part in driver.parts(taker, batch)]

    def commit(self, end: dict[str, Any]) -> None:
        self._open().settle(str(end["taker"]), int(end["batch"]))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def _open(self) -> _Driver:
        if self._driver is None:
            self._driver = _Driver(self.options)
        return self._driver

    # --- in a task -------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, TakenRange):  # else Spark's own stand-in for "no partitions"
            yield from self._read(partition)

    def _read(self, part: TakenRange) -> Iterator[Any]:
        stream = QueueKeys(self.options.queue).stream.decode()
        inner = pa.schema([field for field in self._schema if field.name != TAKEN_BY])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        rows = JobRows(stream, "stream", inner, raw_payload=self.options.raw_payload)
        directory = self.options.directory()
        try:
            consumer, after = self.options.consumer(directory, part.taken_by), part.first
            while ids := consumer.pending(after, part.last, _PAGE):
                batch: Any = rows.batch(consumer.entries(ids))
                columns: list[Any] = [
                    batch.column(field.name)
                    if field.name != TAKEN_BY
                    else pa.array([part.taken_by] * batch.num_rows, field.type)  # pyright: ignore[reportUnknownMemberType]
                    for field in self._schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)  # pyright: ignore[reportUnknownMemberType]
                if (last := ids[-1].decode()) == part.last:
                    break
                after = f"({last}"
        finally:
            directory.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}  # sockets and threads stay here


class _Driver:
    """What the driver holds: the batches that are not settled, a thread that settles them while the next one runs, and a thread
    that renews their leases."""

    def __init__(self, options: ConsumeOptions) -> None:
        self._options = options
        self._directory = options.directory()
        self._lock = threading.Lock()
        self._batches: dict[str, float] = {}
        """The consumers that hold something, and since when we know."""
        self._leased: dict[str, float] = {}
        """Since when the leases of a batch have run, where we have begun or renewed all of them."""
        self._taken: dict[str, TakenJobs] = {}
        """The jobs of a batch, where we took them ourselves."""
        self._settling = ThreadPoolExecutor(1, thread_name_prefix="relevo-spark-settles")
        self._settles_by = options.directory()
        self._under_way: Future[None] | None = None
        self._known: set[str] = set()
        """Takers whose consumers of before were looked for."""
        self._left: int | None = None
        """How many jobs a query may still take that stops after what was there."""
        self.renewed = threading.Event()
        """Set after each round of renewals."""
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="relevo-spark-leases", daemon=True)
        register(self._directory, options.queue)
        self._keeper.start()

    def stop_after_what_waits(self) -> None:
        consumer = self._consumer("c-spark")
        consumer.join()
        consumer.promote()
        self._left = consumer.waiting()

    def take(self, taker: str, batch: int, most: int) -> bool:
        """Whether the batch holds anything, after what it took now. One that a driver before us took stays as it is."""
        name = _name(taker, batch)
        consumer = self._consumer(name)
        consumer.join()
        if not consumer.pending(count=1):
            consumer.promote()
            most, began = most if self._left is None else min(most, self._left), time.monotonic()
            taken = consumer.take(most) if most else []
            if taken:
                self._leased[name], self._taken[name] = began, taken
            if self._left is not None:
                self._left = max(0, self._left - len(taken)) if taken else 0
        held = bool(consumer.pending(count=1))
        if held:
            self._hold(name)
        return held

    def parts(self, taker: str, batch: int) -> Iterator[TakenRange]:
        name, size = _name(taker, batch), self._options.jobs_per_partition
        consumer, after = self._consumer(name), "-"
        self._hold(name)
        if time.monotonic() - self._leased.get(name, NEVER_TRUSTED) > self._options.lease_s / 3:
            self._renew(consumer, name)
        while ids := consumer.pending(after, count=size):
            yield TakenRange(name, ids[0].decode(), ids[-1].decode())
            after = f"({ids[-1].decode()}"

    def settle(self, taker: str, upto: int) -> None:
        """Begins to settle what is left of the batches up to this one as done: Spark has committed them. A driver that dies
        meanwhile leaves that to the next."""
        if taker not in self._known:
            for name in self._consumers_of(taker):
                self._hold(name)
            self._known.add(taker)
        self.wait_for_settles()
        with self._lock:
            done = {name: since for name, since in self._batches.items() if _batch(name, taker) in range(upto + 1)}
        if done:
            self._under_way = self._settling.submit(self._settle, done)

    def _settle(self, done: Mapping[str, float]) -> None:
        for name, since in done.items():
            leased_at = self._leased.get(name, NEVER_TRUSTED)
            consumer = self._options.consumer(self._settles_by, name)
            consumer.finish(time.monotonic() - since, leased_at=leased_at, taken=self._taken.get(name, ()))
            with self._lock:
                self._batches.pop(name, None)
                self._leased.pop(name, None)
                self._taken.pop(name, None)

    def wait_for_settles(self) -> None:
        """Waits until what was begun is settled, and raises what went wrong with it."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def close(self) -> None:
        try:
            self.wait_for_settles()
        except (RelevoError, OSError) as error:
            log.warning("jobs of queue %s could not be settled, and will run again: %s", self._options.queue, error)
        self._settling.shutdown()
        self._settles_by.close()
        self._ended.set()
        self._keeper.join(self._options.connection.timeout_s)
        self._directory.close()

    def _hold(self, name: str) -> None:
        with self._lock:
            self._batches.setdefault(name, time.monotonic())

    def _renew(self, consumer: BatchConsumer, name: str) -> None:
        began = time.monotonic()
        consumer.renew()
        with self._lock:
            if name in self._batches:  # else it was settled meanwhile
                self._leased[name] = began

    def _consumer(self, name: str) -> BatchConsumer:
        return self._options.consumer(self._directory, name)

    def _consumers_of(self, taker: str) -> list[str]:
        """What a driver before us left behind."""
        keys = QueueKeys(self._options.queue)
        if not self._directory.ask(keys.stream, "EXISTS", keys.stream):
            return []
        self._consumer("c-spark").join()
        found: Reply = self._directory.ask(keys.stream, "XINFO", "CONSUMERS", keys.stream, self._options.group)
        names = [dict(zip(each[::2], each[1::2], strict=True))[b"name"].decode() for each in found]
        return [name for name in names if _batch(name, taker) is not None]

    def _keep(self) -> None:
        """The leases of a long batch, from a thread and a connection of their own."""
        directory = self._options.directory()
        while not self._ended.wait(self._options.lease_s / 3):
            with self._lock:
                names = list(self._batches)
            for name in names:
                try:
                    self._renew(self._options.consumer(directory, name), name)
                except (RelevoError, OSError) as error:
                    log.warning("leases of queue %s could not be renewed: %s", self._options.queue, error)
            self.renewed.set()
        directory.close()


def ask(directory: Directory, key: bytes, data: bytes, count: int) -> list[Reply]:
    """Sends packed commands to the server of a key, again after a loss. For what may be carried out twice."""

    def attempt() -> list[Reply]:
        connection = directory.connection(key)
        connection.send(data)
        replies = [connection.read() for _ in range(count)]
        directory.refuse_moved(replies, connection)
        return replies

    return directory.patiently(attempt)


def _name(taker: str, batch: int) -> str:
    return f"c-spark-{taker}-{batch}"


def _batch(name: str, taker: str) -> int | None:
    """The number of a batch of this taker.

    >>> _batch("c-spark-ab12-7", "ab12"), _batch("c-spark-cd-7", "ab12")
    (7, None)
    """
    prefix = f"c-spark-{taker}-"
    number = name.removeprefix(prefix)
    return int(number) if name.startswith(prefix) and number.isdecimal() else None
