"""`df.write.format("relevo-work")` and `df.writeStream.format("relevo-work")`: rows become messages of work queues, each once.

Rows go over HTTP, some hundred in a request. Each has an idempotency key: its own, from the column `idempotency_key`, or one
made of the write, the micro-batch, the partition and the row's place in it. Whoever runs a partition again (a retry, a
speculative twin, the next driver after a crash) sends the same keys, and the server answers with the messages that are there.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from relevo.errors import BadArgument, RowRefused, WorkError
from relevo.pipeline.connector.options import Given, secret_of
from relevo.pipeline.connector.sink import batch_of, names_queues
from relevo.pipeline.connector.spark_api import StreamArrowWriter, record_batches
from relevo.pipeline.connector.work_messages import WorkMessage, WorkMessages

KNOWN = (
    *("url", "urlEnv", "urlFile", "keyEnv", "keyFile", "scope", "queue", "writeId", "batchRows", "dataFormat"),
    *("timeoutSeconds", "fullTimeoutSeconds"),
)
_MOST_ROWS = 1000
_MOST_BYTES = 2 * 1_048_576
"""Of one request: a quarter of what a server takes, because bodies are not all of it."""
_LONGEST_WRITE_ID = 100
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


@dataclass(frozen=True, repr=False)
class WorkSinkOptions:
    """Where rows go. The key comes from the environment or a file of the driver and travels inside pickled writers only."""

    url: str
    key: str
    scope: str
    queue: str
    write_id: str | None
    batch_rows: int
    text_bodies: bool
    timeout_s: float
    full_timeout_s: float

    def __repr__(self) -> str:
        return f"WorkSinkOptions({self.url}, {self.scope}/{self.queue})"

    @staticmethod
    def parse(options: Mapping[str, str], *, queue_by_row: bool) -> WorkSinkOptions:
        given = Given(options, KNOWN)
        url = given.text("url", "") or secret_of(given, "urlEnv", "urlFile") or os.environ.get("RELEVO_URL", "")
        url = url or "http://127.0.0.1:6391"
        if not url.startswith(("http://", "https://")):
            remedy = "Write the address of `relevo serve`, such as http://127.0.0.1:6391. Rows are not written to its database."
            raise given.bad("url", "messages are published over HTTP", remedy)
        key = secret_of(given, "keyEnv", "keyFile") or os.environ.get("RELEVO_KEY", "")
        if not key:
            raise given.bad("keyEnv", "the server asks for a key", "Name a variable or a `keyFile`, or set RELEVO_KEY.")
        for name, remedy in (
            ("scope", 'Write .option("scope", "billing").'),
            ("queue", 'Write .option("queue", "invoices"), or give the rows a column `queue`.'),
        ):
            if not given.text(name, "") and not (name == "queue" and queue_by_row):
                raise given.bad(name, "rows need one to go to", remedy)
        rows = given.number("batchRows") or 500
        if rows > _MOST_ROWS:
            raise given.bad("batchRows", f"a request holds {_MOST_ROWS} messages at most", "Write less.")
        if len(given.text("writeId", "")) > _LONGEST_WRITE_ID:
            reason = f"it is longer than {_LONGEST_WRITE_ID} characters"
            raise given.bad("writeId", reason, "It is a part of the key of every message: write a shorter one.")
        return WorkSinkOptions(
            url=url,
            key=key,
            scope=given.text("scope", ""),
            queue=given.text("queue", ""),
            write_id=given.text("writeId", "") or None,
            batch_rows=rows,
            text_bodies=given.one_of("dataFormat", ("json", "text")) == "text",
            timeout_s=float(given.number("timeoutSeconds") or 30),
            full_timeout_s=float(given.number("fullTimeoutSeconds") or 600),
        )


class Published(WriterCommitMessage):
    """What one task did."""

    def __init__(self, published: int, known: int) -> None:
        self.published = published
        self.known = known
        """Rows that an earlier attempt had published."""


class BatchWorkSink(DataSourceArrowWriter):
    """One write: tasks that run again publish nothing twice. With `writeId` so does the same write run again."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._sink = WorkSinkOptions.parse(options, queue_by_row=names_queues(schema))
        self._schema = schema
        self._write = self._sink.write_id or str(uuid.uuid4())
        WorkMessages(schema, text_bodies=self._sink.text_bodies)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return publish(self._sink, self._schema, iterator, write=self._write, epoch=0)


class StreamWorkSink(StreamArrowWriter):
    """One streaming query. The query's id and the batch's number come with every task, also after a restart."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._sink = WorkSinkOptions.parse(options, queue_by_row=names_queues(schema))
        self._schema = schema
        WorkMessages(schema, text_bodies=self._sink.text_bodies)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        query, epoch = batch_of(TaskContext.get())
        return publish(self._sink, self._schema, record_batches(iterator, self._schema), write=query, epoch=epoch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: every row is in its queue already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the batch will run again, and its keys are known."""


def publish(sink: WorkSinkOptions, schema: StructType, batches: Iterator[Any], *, write: str, epoch: int) -> Published:
    """What one task does."""
    from relevo.client import Client  # a session that only reads need not have httpx

    task = TaskContext.get()
    partition = task.partitionId() if task is not None else 0
    with Client(sink.url, key=sink.key, timeout_s=sink.timeout_s, retry_s=sink.timeout_s, connections=1) as client:
        requests = _Requests(client, sink, f"spark:{write}:{epoch}:{partition}", partition)
        for message in WorkMessages(schema, text_bodies=sink.text_bodies).of(batches):
            requests.add(message)
        requests.end()
        return Published(requests.published, requests.known)


class _Requests:
    """The requests of one partition: rows are collected for each queue until they fill one."""

    def __init__(self, client: Any, sink: WorkSinkOptions, keys: str, partition: int) -> None:
        self._client = client
        self._sink = sink
        self._keys = keys
        self._partition = partition
        self._waiting: dict[str, list[WorkMessage]] = {}
        self._sizes: dict[str, int] = {}
        self.published = 0
        self.known = 0

    def add(self, message: WorkMessage) -> None:
        queue = message.queue or self._sink.queue
        if not queue:
            remedy = 'Name one for all rows without: .option("queue", "invoices").'
            raise BadArgument(argument="queue", value=None, reason=f"row {message.row} names none", remedy=remedy)
        if self._sizes.get(queue, 0) + message.size > _MOST_BYTES:
            self._send(queue)
        waiting = self._waiting.setdefault(queue, [])
        waiting.append(message)
        self._sizes[queue] = self._sizes.get(queue, 0) + message.size
        if len(waiting) >= self._sink.batch_rows:
            self._send(queue)

    def end(self) -> None:
        for queue in list(self._waiting):
            self._send(queue)

    def _send(self, queue: str) -> None:
        """Publishes what waits; what finds no room is sent again until it does."""
        left = self._waiting.pop(queue, [])
        self._sizes.pop(queue, None)
        full_until, pause = time.monotonic() + self._sink.full_timeout_s, _FIRST_PAUSE_S
        while left:
            full, wait_s = self._send_once(queue, left)
            if full and time.monotonic() + wait_s > full_until:
                remedy = "Add workers, raise the queue's `max_depth`, or set fullTimeoutSeconds."
                raise self._refused(full[0], queue, "QUEUE_FULL", "there was no room in time", remedy)
            if full:
                time.sleep(max(wait_s, pause))
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            left = full

    def _send_once(self, queue: str, messages: list[WorkMessage]) -> tuple[list[WorkMessage], float]:
        """Those that found no room, and how long the server asks to wait."""
        items = [{"idempotency_key": f"{self._keys}:{each.row}", **each.fields} for each in messages]
        try:
            outcomes = self._client.publish_batch(self._sink.scope, queue, items)
        except WorkError as error:
            fields = cast("dict[str, Any]", error.fields)
            if fields.get("http_status") != 429:  # too many requests, or a full queue: both pass
                raise
            return messages, float(fields.get("retry_after_s") or 0)
        full: list[WorkMessage] = []
        for message, outcome in zip(messages, outcomes, strict=True):
            if outcome.refusal is None:
                self.known += outcome.duplicate
                self.published += not outcome.duplicate
            elif outcome.refusal.code == "QUEUE_FULL":
                full.append(message)
            else:
                raise self._judged(message, queue, outcome.refusal)
        return full, 0.0

    def _judged(self, message: WorkMessage, queue: str, refusal: Any) -> RowRefused:
        remedy = "Change the row, or leave it out."
        if refusal.code == "IDEMPOTENCY_CONFLICT" and "idempotency_key" in message.fields:
            remedy = "Two rows with one `idempotency_key` must have one body."
        elif refusal.code == "IDEMPOTENCY_CONFLICT":
            remedy = (
                "Another row stood in its place when this partition ran before: give the rows a fixed order "
                "(`sortWithinPartitions`), or a column `idempotency_key`."
            )
        return self._refused(message, queue, refusal.code, refusal.detail, remedy)

    def _refused(self, message: WorkMessage, queue: str, code: str, reason: str, remedy: str) -> RowRefused:
        return RowRefused(
            row=message.row,
            partition=self._partition,
            queue=f"{self._sink.scope}/{queue}",
            code=code,
            reason=reason,
            remedy=remedy,
        )
