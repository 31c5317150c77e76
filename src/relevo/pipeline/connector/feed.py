"""Puts the rows of one partition into the queue, each once, however often Spark runs the task.

Rows go in chunks. A chunk is one atomic step together with a mark in a key of this partition: the epoch (which micro-batch) and
behind it a digest for each chunk that is in the queue. Whoever runs the partition again (a retry, a speculative twin, the next
driver after a crash) finds the marks and passes over the chunks that are there. Two at once cannot both take a step: it only
happens while the key is as the writer has seen it (WATCH, or a script). docs/decisions/0002 tells why not Redis' own IDMP.

The digests tell rows that came in another order: written again they would be lost or doubled, so the write stops and says so.
Rows with ids of the user's choosing are different: each is known by its id, and only those that are new are added.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import NamedTuple

from relevo.errors import ConnectionLost, QueueFull, RowsChanged, ServerRefused
from relevo.pipeline.connector.connection import Argument, Connection, Directory, Reply, ReplyError, pack
from relevo.pipeline.connector.options import SinkOptions
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.spark")

CHUNK = 1000  # part of the format: chunks are counted to find the place where to go on
_HEADROOM = (
    100_000  # nearer to the cap than this a script counts before it adds, so that no two writers pass it together
)
_REMEMBERED_S = 30 * 86_400  # a driver may be away that long and still go on where it stopped
_EPOCH_SIZE, _MARK_SIZE = 20, 16
_PAUSE_S = 0.1


class Row(NamedTuple):
    """One job on its way."""

    envelope: bytes
    name: bytes
    run_at_ms: int | None
    job_id: str
    """The id the user chose; empty for one of ours."""
    member: bytes
    """For a delayed job: as it stands in the delayed set."""
    content: bytes
    """All that the user gave, and nothing that we made up: what tells this row from another."""
    notes: bytes = b""
    """What stands beside the job (`wire.notes`), such as its lane; empty for most."""
    noted: str = ""
    """The job's id, for its notes."""


class _Chunk(NamedTuple):
    number: int
    rows: list[Row]
    mark: bytes

    @property
    def chosen(self) -> bool:
        return all(row.job_id for row in self.rows)


class _Beaten(Exception):
    """The key is not as we have seen it: another attempt of this partition is at work."""


class Feed:
    """One partition of one write. `epoch` counts the batches of a streaming query; a batch write has one, 0."""

    def __init__(
        self, directory: Directory, sink: SinkOptions, *, write: str, partition: int, epoch: int, alone: bool = True
    ) -> None:
        self._alone = alone
        """Whether no other feed uses these connections: what one sends ahead, or watches, another would take for its own."""
        self._directory = directory
        self._sink = sink
        self._write = write
        self._partition = partition
        self._epoch = b"%020d" % epoch
        self._keys = QueueKeys(sink.queue)
        self._key = self._keys.sent(f"spark:{write}:{partition}")
        self._seen = b""
        """The epoch in the key, as we have seen it, and the size of the key."""
        self._size = 0
        self._marks: list[bytes] = []
        """The chunks of our epoch that are in the queue."""
        self._length = 0
        self._connection: Connection | None = None
        """A connection that watches the key, while one does."""
        self._script = _read("feed")
        self._named = _head(7, b"XADD", self._keys.stream, b"*", b"d")
        self._nameless = _head(5, b"XADD", self._keys.stream, b"*", b"d")
        self._waiting: list[Row] = []
        self._under_way: _Chunk | None = None
        self._count = 0
        """Chunks that were taken."""
        self.written = 0
        self.passed_over = 0
        """Rows that an earlier attempt had written."""

    def write(self, rows: Iterable[Row]) -> int:
        """Writes all rows that are not there yet; returns how many that were."""
        self.begin()
        for chunk in _chunks(rows):
            self._take(chunk)
        return self.end()

    # Step by step, for a task whose rows go to several queues:

    def begin(self) -> None:
        self._look()

    def add(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) == CHUNK:
            self._take_waiting()

    def end(self) -> int:
        """Returns how many rows were not there yet."""
        if self._waiting:
            self._take_waiting()
        if self._under_way is not None:
            self.written += self._settle(self._under_way)
            self._under_way = None
        if self._count < len(self._marks):
            raise self._changed()
        return self.written

    def _take_waiting(self) -> None:
        rows, self._waiting = self._waiting, []
        self._take(_chunk(self._count, rows))

    def _take(self, chunk: _Chunk) -> None:
        """Making the next chunk is most of the work: the server takes the last one meanwhile."""
        self._count = chunk.number + 1
        if self._under_way is not None:
            self.written += self._settle(self._under_way)
            self._under_way = None
        if self._there(chunk):
            self.passed_over += len(chunk.rows)
        elif chunk.number == len(self._marks) and self._submit(chunk):
            self._under_way = chunk
        else:
            self.written += self._place(chunk)

    def _there(self, chunk: _Chunk) -> bool:
        marks = self._marks
        if chunk.number >= len(marks):
            return False
        if marks[chunk.number] == chunk.mark:
            return True
        if not chunk.chosen:
            raise self._changed()
        return False

    def _changed(self) -> RowsChanged:
        rows = len(self._marks) * CHUNK
        return RowsChanged(partition=self._partition, write=self._write, rows=rows, queue=self._sink.queue)

    # --- the fast way: watch, and send the next chunk in one MULTI ---------------------------------------------------

    def _submit(self, chunk: _Chunk) -> bool:
        """Sends a chunk without waiting for the answer; False when that is not for this chunk, or not now."""
        roomy = self._length + len(chunk.rows) + _HEADROOM < self._sink.cap
        if (
            not self._alone
            or not roomy
            or self._connection is None
            or any(row.job_id or row.notes for row in chunk.rows)
        ):
            return False
        parts = [_MULTI]
        add = parts.append
        named, nameless = self._named, self._nameless
        for row in chunk.rows:
            envelope, name = row.envelope, row.name
            if row.run_at_ms is not None:
                add(pack((b"ZADD", self._keys.delayed, row.run_at_ms, row.member)))
            elif name:
                add(b"%b$%d\r\n%b\r\n$1\r\nn\r\n$%d\r\n%b\r\n" % (named, len(envelope), envelope, len(name), name))
            else:
                add(b"%b$%d\r\n%b\r\n" % (nameless, len(envelope), envelope))
        parts += (pack(command) for command in self._marking(chunk))
        add(_EXEC)
        add(self._question())
        try:
            self._connection.send(b"".join(parts))
        except ConnectionLost:
            self._connection = None
            return False
        return True

    def _settle(self, chunk: _Chunk) -> int:
        """The answer to what was submitted; what went wrong with it is put right here. Returns rows written."""
        connection = self._connection
        assert connection is not None
        try:
            replies = [connection.read() for _ in range(2 + len(chunk.rows) + len(self._marking(chunk)))]
            outcome = replies[-1]
            refused = next((each for each in replies if isinstance(each, ReplyError)), None)
            if refused is None and outcome is not None:
                refused = next((each for each in outcome if isinstance(each, ReplyError)), None)
            if refused is not None and not refused.elsewhere:
                raise ServerRefused(command="the add", reason=str(refused))
            if refused is not None or outcome is None:
                self._connection = None
                self._directory.forget(connection)
                self._look()
                return self._place(chunk)
            self._noted(chunk)
            self._hear(connection)
        except ConnectionLost as error:
            log.warning("queue %s: %s", self._sink.queue, error)
            self._connection = None
            self._directory.forget(connection)
            self._look()
            return self._place(chunk)
        return len(chunk.rows)

    def _marking(self, chunk: _Chunk) -> list[tuple[Argument, ...]]:
        """The commands that mark a chunk as done."""
        begin: list[tuple[Argument, ...]] = [] if self._seen == self._epoch else [("SET", self._key, self._epoch)]
        return [*begin, ("APPEND", self._key, chunk.mark), ("EXPIRE", self._key, _REMEMBERED_S)]

    def _noted(self, chunk: _Chunk) -> None:
        self._size = (self._size if self._seen == self._epoch else _EPOCH_SIZE) + _MARK_SIZE
        self._seen = self._epoch
        self._marks.append(chunk.mark)

    # --- looking ---------------------------------------------------------------------------------------------------

    def _question(self) -> bytes:
        return b"".join(
            pack(command)
            for command in (
                ("WATCH", self._key),
                ("GETRANGE", self._key, 0, _EPOCH_SIZE - 1),
                ("STRLEN", self._key),
                ("XLEN", self._keys.stream),
                ("ZCARD", self._keys.delayed),
            )
        )

    def _hear(self, connection: Connection) -> None:
        """The answer to the question that went with a chunk: the key must be as we left it."""
        replies = self._checked([connection.read() for _ in range(5)], connection)
        if replies[1] != self._seen or replies[2] != self._size:
            self._look()
        else:
            self._length = replies[3]

    def _look(self) -> None:
        """Learns how far this partition has come, and watches the key from here on."""

        def attempt() -> tuple[Connection, list[Reply]]:
            connection = self._directory.connection(self._key)
            connection.send(self._question() + pack(("GET", self._key)))
            return connection, self._checked([connection.read() for _ in range(6)], connection)

        self._connection, replies = self._directory.patiently(attempt)
        stored: bytes = replies[5] or b""
        self._seen, self._size, self._length = stored[:_EPOCH_SIZE], len(stored), replies[3]
        found = [stored[at : at + _MARK_SIZE] for at in range(_EPOCH_SIZE, len(stored), _MARK_SIZE)]
        self._marks = found if self._seen == self._epoch else []
        if self._seen > self._epoch:  # we are a task from before: our batch is done, and others have gone on
            rows = len(found) * CHUNK
            raise RowsChanged(partition=self._partition, write=self._write, rows=rows, queue=self._sink.queue)

    def _checked(self, replies: list[Reply], connection: Connection) -> list[Reply]:
        self._directory.refuse_moved(replies, connection)
        for reply in replies:
            if isinstance(reply, ReplyError):
                raise ServerRefused(command="the add", reason=str(reply))
        return replies

    # --- the careful way: a script that counts, one chunk at a time --------------------------------------------------

    def _place(self, chunk: _Chunk) -> int:
        """Adds a chunk, whatever it takes: waits while the queue is full, goes on after a lost connection, passes over what
        another attempt has added."""
        deadline, said = time.monotonic() + self._sink.full_timeout_s, False
        while not self._there(chunk):
            try:
                full = not self._run_script(chunk)
            except _Beaten:
                self._look()
                continue
            except ConnectionLost as error:
                log.warning("queue %s: %s", self._sink.queue, error)
                self._look()
                if self._there(chunk):
                    return len(chunk.rows)
                continue
            if not full:
                return len(chunk.rows)
            if time.monotonic() > deadline:
                raise QueueFull(queue=self._sink.queue, length=self._length, cap=self._sink.cap)
            if not said:
                log.warning("queue %s is full (%d jobs): waiting for its workers", self._sink.queue, self._length)
                said = True
            time.sleep(_PAUSE_S)
        self.passed_over += len(chunk.rows)
        return 0

    def _run_script(self, chunk: _Chunk) -> bool:
        """True when the chunk was added, False when the queue is full."""
        new = chunk.number == len(self._marks)
        arguments: list[Argument] = [
            *(self._keys.tag, self._seen, self._size, self._epoch, chunk.mark if new else b""),
            *(_REMEMBERED_S, self._sink.cap, self._sink.id_window_s),
        ]
        for row in chunk.rows:
            run_at: Argument = "" if row.run_at_ms is None else row.run_at_ms
            arguments += (run_at, row.envelope, row.name, row.job_id, row.member, row.noted, row.notes)
        connection = self._directory.connection(self._key)
        keys = (self._keys.stream, self._keys.delayed, self._key)
        connection.send(
            pack(("UNWATCH",)) + pack(("EVAL", self._script, len(keys), *keys, *arguments)) + self._question()
        )
        replies = self._checked([connection.read() for _ in range(7)], connection)
        self._connection, self._length = connection, replies[5]
        verdict = replies[1][0]
        if verdict == 0:
            raise _Beaten
        if verdict == 1 and new:
            self._noted(chunk)
        return verdict == 1


_MULTI, _EXEC = pack(("MULTI",)), pack(("EXEC",))


def _read(script: str) -> str:
    return files("relevo.pipeline.connector").joinpath(f"lua/{script}.lua").read_text()


def _head(arguments: int, *first: bytes) -> bytes:
    packed = pack(first)
    return b"*%d" % arguments + packed[packed.index(b"\r\n") :]


def _chunks(rows: Iterable[Row]) -> Iterator[_Chunk]:
    waiting: list[Row] = []
    number = 0
    for row in rows:
        waiting.append(row)
        if len(waiting) == CHUNK:
            yield _chunk(number, waiting)
            number, waiting = number + 1, []
    if waiting:
        yield _chunk(number, waiting)


def _chunk(number: int, rows: list[Row]) -> _Chunk:
    digest = hashlib.blake2b(b"".join([row.content for row in rows]), digest_size=_MARK_SIZE // 2)
    return _Chunk(number, rows, digest.hexdigest().encode())
