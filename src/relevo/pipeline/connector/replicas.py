"""Reading from replicas: where they are, and whether one has what was planned on its master.

The plan is the master's: a few short questions a micro-batch. Tasks read ranges of it from a replica, each once that replica
has the range's end. One that is away, or has not caught up in a while, is left aside, and its master read instead.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable

from relevo.broker.address import Address, Node
from relevo.errors import ConnectionLost, ServerRefused
from relevo.pipeline.connector.connection import Connection, Directory, Question, Reply, ReplyError
from relevo.pipeline.connector.offsets import NOTHING, EntryId
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.connector.ranges import IdRange

log = logging.getLogger("relevo.spark")

CATCH_UP_S = 5.0
"""So long a task waits for a replica that is behind."""


class ReplicaDirectory(Directory):
    """Finds a replica of the server that holds a key; the server itself where it has none that can be read."""

    def __init__(self, address: Address, *, timeout_s: float) -> None:
        # A third: when a replica hangs, there is time left to ask its master.
        super().__init__(address, timeout_s=timeout_s / 3, patience_s=timeout_s)
        self._chosen: dict[Node, Node] = {}
        """Of each master the one that is read: the same one for all questions of a task."""
        self._aside: set[Node] = set()

    def set_aside(self, node: Node, reason: str) -> None:
        """Reads from another one from now on. A master has none that would know more."""
        if node in self._chosen.values() and node not in self._chosen:
            log.warning("the replica %s is not read: %s", node, reason)
            self._aside.add(node)
            self._chosen = {master: one for master, one in self._chosen.items() if one != node}

    def forget(self, connection: Connection) -> None:
        self.set_aside(connection.node, "it refuses to be read")
        super().forget(connection)

    def node_of(self, key: bytes) -> Node:
        """Who is asked about a key now."""
        return self.patiently(lambda: self._locate(key))

    def _pick(self, servers: tuple[Node, ...]) -> Node:
        master, *replicas = servers
        if master not in self._chosen:
            fit = [one for one in replicas if one not in self._aside]
            self._chosen[master] = random.choice(fit) if fit else master
        return self._chosen[master]

    def _connect(self, node: Node) -> Connection:
        known = node in self._open
        try:
            connection = super()._connect(node)
        except ConnectionLost as error:
            self.set_aside(node, error.reason)
            raise
        if not known and self.address.kind == "cluster":
            connection.call("READONLY")  # else it sends everybody to its master
        return connection

    def _replicas_of(self, sentinel: Connection) -> list[Node]:
        found = sentinel.call("SENTINEL", "REPLICAS", self.address.master)
        if isinstance(found, ReplyError):
            return []
        rows = [dict(zip(row[::2], row[1::2], strict=True)) for row in found]
        fit = [row for row in rows if row[b"flags"] == b"slave" and row[b"master-link-status"] == b"ok"]
        return [Node(row[b"ip"].decode(), int(row[b"port"])) for row in fit]


def to_read(source: SourceOptions, parts: Iterable[IdRange]) -> Directory:
    """The servers that a task reads these ranges from."""
    connection = source.connection
    if source.read_from == "master":
        return Directory(connection.address(), timeout_s=connection.timeout_s)
    directory = ReplicaDirectory(connection.address(), timeout_s=connection.timeout_s)
    try:
        _wait_for(directory, {part.stream: part.end for part in sorted(parts, key=lambda part: part.end)})
    except BaseException:
        directory.close()
        raise
    return directory


def _wait_for(directory: ReplicaDirectory, ends: dict[str, EntryId]) -> None:
    """Waits until the replicas have these entries; those that have not in time are set aside."""
    behind = {stream.encode(errors="surrogateescape"): end for stream, end in ends.items()}
    deadline, pause = time.monotonic() + CATCH_UP_S, 0.01
    while behind := _behind(directory, behind):
        late = {directory.node_of(key) for key in behind}
        if time.monotonic() > deadline:
            for node in late:
                directory.set_aside(node, f"it has not caught up in {CATCH_UP_S:g} s")
            return
        time.sleep(pause)
        pause = min(pause * 2, 0.5)


def _behind(directory: Directory, ends: dict[bytes, EntryId]) -> dict[bytes, EntryId]:
    questions: list[Question] = [(key, ("XINFO", "STREAM", key)) for key in ends]
    replies = directory.ask_each(questions)
    return {key: end for (key, end), reply in zip(ends.items(), replies, strict=True) if _newest(reply) < end}


def _newest(flat: Reply) -> EntryId:
    """The newest entry that a stream ever had, also one that has been deleted since."""
    if isinstance(flat, ReplyError):
        if "no such key" in str(flat):
            return NOTHING
        raise ServerRefused(command="XINFO", reason=str(flat))
    return EntryId.parse(dict(zip(flat[::2], flat[1::2], strict=True))[b"last-generated-id"])
