"""The streams that the option `queues` names, and what Redis knows of each: length, first and last id."""

from __future__ import annotations

from typing import NamedTuple

from relevo.errors import ServerRefused
from relevo.pipeline.connector.connection import Directory, ReplyError
from relevo.pipeline.connector.offsets import NOTHING, EntryId
from relevo.pipeline.connector.options import SourceOptions

_GLOB = frozenset("*?[")


class StreamState(NamedTuple):
    """A stream as it is now."""

    key: str
    length: int
    first: EntryId
    """The oldest entry; NOTHING when there is none."""
    last: EntryId
    """The newest entry; NOTHING when there is none."""


def queue_of(key: str) -> str:
    """The queue's name in one of its keys.

    >>> queue_of("{chasqui:emails}:events")
    'emails'
    """
    return key.partition("}")[0].removeprefix("{chasqui:")


def named_keys(directory: Directory, source: SourceOptions) -> list[str]:
    """The keys of the queues that are named, sorted; those behind a glob are looked for on every server."""
    names = [name for name in source.queues if not _GLOB & set(name)]
    globs = [name for name in source.queues if _GLOB & set(name)]
    found = {source.key(name) for name in names}
    for connection in directory.servers() if globs else ():
        for glob in globs:
            cursor: bytes = b"0"
            while True:
                reply = connection.call("SCAN", cursor, "MATCH", source.key(glob), "COUNT", 1000)
                if isinstance(reply, ReplyError):
                    raise ServerRefused(command="SCAN", reason=str(reply))
                cursor, keys = reply
                found.update(key.decode(errors="surrogateescape") for key in keys)
                if cursor == b"0":
                    break
    return sorted(found)


def states(directory: Directory, keys: list[str]) -> list[StreamState]:
    """What is known of each stream; one that does not exist is empty."""
    return [_state(directory, key) for key in keys]


def _state(directory: Directory, key: str) -> StreamState:
    try:
        flat = directory.ask(encoded(key), "XINFO", "STREAM", encoded(key))
    except ServerRefused as error:
        if "no such key" in str(error):
            return StreamState(key, 0, NOTHING, NOTHING)
        raise
    facts = dict(zip(flat[::2], flat[1::2], strict=True))
    first, last = facts[b"first-entry"], facts[b"last-entry"]
    return StreamState(
        key,
        facts[b"length"],
        EntryId.parse(first[0]) if first else NOTHING,
        EntryId.parse(last[0]) if last else NOTHING,
    )


def encoded(key: str) -> bytes:
    return key.encode(errors="surrogateescape")
