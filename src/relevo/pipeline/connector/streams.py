"""The streams that the option `queues` names, and what Redis knows of each: length, first and last id."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from relevo.errors import ServerRefused
from relevo.pipeline.connector.connection import Directory, Question, Reply, ReplyError
from relevo.pipeline.connector.offsets import NOTHING, EntryId
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.connector.ranges import is_place
from relevo.wire.keys import REGISTRY

_GLOB = frozenset("*?[")
_PIECE = re.compile(r"\\.|\[(?:\\.|[^\]])*\]|.", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)|\[", re.DOTALL)
SCAN_EVERY_S = 10.0
PAUSE_A_CALL_S = 0.2
"""A search of a thousand keys is one call: a million keys are searched every 200 seconds, and never more often than above."""


class StreamState(NamedTuple):
    """A stream as it is now."""

    key: str
    length: int
    first: EntryId
    """The oldest entry; NOTHING when there is none."""
    last: EntryId
    """The newest entry; NOTHING when there is none."""
    added: int
    """How many entries it was ever given."""


def queue_of(key: str) -> str:
    """The queue's name in one of its keys.

    >>> queue_of("{chasqui:emails}:events")
    'emails'
    """
    return key.partition("}")[0].removeprefix("{chasqui:")


class NamedStreams:
    """The keys of the queues that are named. For a glob the registry of queues is asked each time. Queues that it does not
    know, because only ChasquiMQ or an older relevo writes to them, are looked for among all keys of every server: at first, and
    then rarely. What a search has found is kept until the next."""

    def __init__(self, source: SourceOptions) -> None:
        self._source = source
        self._globs = [name for name in source.queues if _GLOB & set(name)]
        self._named = {source.key(name) for name in source.queues if not _GLOB & set(name)}
        self._matches = [glob_pattern(name).fullmatch for name in self._globs]
        self._found: set[str] = set()
        self._again = 0.0
        """When to search again."""

    def keys(self, directory: Directory) -> list[str]:
        """All of them, sorted."""
        if not self._globs:
            return sorted(self._named)
        if time.monotonic() >= self._again:
            self._found, calls = self._search(directory)
            self._again = time.monotonic() + max(SCAN_EVERY_S, calls * PAUSE_A_CALL_S)
        return sorted(self._named | self._found | self._registered(directory))

    def _registered(self, directory: Directory) -> set[str]:
        (reply,) = directory.ask_each([(REGISTRY, ("SMEMBERS", REGISTRY))])
        if isinstance(reply, ReplyError):  # a user who may read some queues only: the search finds them
            return set()
        names = (name.decode(errors="ignore") for name in reply)
        return {self._source.key(name) for name in names if any(matches(name) for matches in self._matches)}

    def _search(self, directory: Directory) -> tuple[set[str], int]:
        found, calls = set[str](), 0
        for connection in directory.servers():
            for glob in self._globs:
                cursor: bytes = b"0"
                while True:
                    calls += 1
                    reply = connection.call("SCAN", cursor, "MATCH", self._source.key(glob), "COUNT", 1000)
                    if isinstance(reply, ReplyError):
                        raise ServerRefused(command="SCAN", reason=str(reply))
                    cursor, keys = reply
                    found.update(key.decode(errors="surrogateescape") for key in keys)
                    if cursor == b"0":
                        break
        return found, calls


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as Redis reads it, for names that are here already.

    >>> (
    ...     bool(glob_pattern("mail-[^0-9]?*").fullmatch("mail-abc")),
    ...     bool(glob_pattern("mail-[^0-9]*").fullmatch("mail-1")),
    ... )
    (True, False)
    """
    parts: list[str] = []
    for piece in _PIECE.findall(glob):
        if piece in ("*", "?"):
            parts.append(".*" if piece == "*" else ".")
        elif piece.startswith("[") and len(piece) > 1:
            parts.append(f"[{_ESCAPED.sub(lambda escaped: re.escape(escaped[1] or '['), piece[1:-1])}]")
        else:
            parts.append(re.escape(piece[-1]))
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:  # such as [z-a]: only Redis knows what it means, and the search asks it
        return re.compile("(?!)")


def register(directory: Directory, queue: str) -> None:
    """Names a queue that is about to be written to in the registry. A user without the right writes all the same."""
    directory.ask_each([(REGISTRY, ("SADD", REGISTRY, queue))])


def states(directory: Directory, keys: list[str]) -> list[StreamState]:
    """What is known of each stream, asked for all at once; one that does not exist is empty."""
    questions: list[Question] = [(encoded(key), ("XINFO", "STREAM", encoded(key))) for key in keys]
    return [_state(key, reply) for key, reply in zip(keys, directory.ask_each(questions), strict=True)]


def _state(key: str, flat: Reply) -> StreamState:
    if isinstance(flat, ReplyError):
        if "no such key" in str(flat):
            return StreamState(key, 0, NOTHING, NOTHING, 0)
        raise ServerRefused(command="XINFO", reason=str(flat))
    facts = dict(zip(flat[::2], flat[1::2], strict=True))
    first, last = facts[b"first-entry"], facts[b"last-entry"]
    return StreamState(
        key,
        facts[b"length"],
        EntryId.parse(first[0]) if first else NOTHING,
        EntryId.parse(last[0]) if last else NOTHING,
        facts.get(b"entries-added", facts[b"length"]),
    )


def witnesses(directory: Directory, begun: list[tuple[StreamState, EntryId]]) -> dict[str, EntryId]:
    """For streams that are read from a mere place on: the entry nearest before it, else the first one after it."""
    found: dict[str, EntryId] = {}
    behind: list[tuple[StreamState, EntryId]] = []
    for state, start in begun:
        if is_place(start) and state.length:
            if start < state.first:
                found[state.key] = state.first
            else:
                behind.append((state, start))
    questions: list[Question] = [
        (encoded(state.key), ("XREVRANGE", encoded(state.key), str(start), "-", "COUNT", 1)) for state, start in behind
    ]
    for (state, _), reply in zip(behind, directory.ask_each(questions), strict=True):
        if isinstance(reply, ReplyError):
            raise ServerRefused(command="XREVRANGE", reason=str(reply))
        # Trimmed between the two questions: what is gone was asked for, and its absence will be noticed.
        found[state.key] = EntryId.parse(reply[0][0]) if reply else state.first
    return found


def encoded(key: str) -> bytes:
    return key.encode(errors="surrogateescape")
