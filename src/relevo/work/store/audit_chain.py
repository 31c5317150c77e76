"""The hash chains of the audit: an entry carries the hash of the one before it, so that no edit and no gap goes unseen.

One chain for all would make every transaction of every process wait for the one before. So there are many: a transaction
takes one that no other has (`Chains`) for as long as it lasts. The head of each chain (its last number and hash) is a row of
its own, written in the same transaction, so a cut-off end is seen too. A new chain names the latest heads there are when it
begins, so a chain that is missing as a whole is seen in those that began after it. Entries are verified by
`relevo.work.audit.verifier`.

Whoever can write to the database can also compute hashes: to hold against that, keep the heads somewhere else now and then
(`relevo audit heads`) and pass them to `relevo audit verify --heads`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from relevo.wire.ids import IdMint

COLUMNS = (
    *("tenant_id", "scope_id", "queue_id", "at", "actor", "action", "target", "request_id", "correlation_id"),
    *("before", "after"),
)
"""What the hash covers, in this order."""

LINKED = (*COLUMNS, "chain", "chain_no", "hash")
"""The columns of an audit row, all but its id."""

HEAD = ("chain", "began_after", "last_no", "last_hash")
"""The columns of a new head."""

NAMED_HEADS = 10
"""Chains that a new one names; the names of chains are ULIDs, so these are the youngest. Each start of a process begins a few
chains, so more of them would fill the table with names."""

Value = int | str | None
_encode = msgspec.json.Encoder().encode


class Head(msgspec.Struct, frozen=True):
    """Where a chain ends. `began_after` names the heads there were when it began; its first entry follows their hash.

    Entries up to `cut_no` are no longer there because somebody had them removed, which the audit tells; `cut_hash` is the
    hash of the last of them, so that the rest still holds together.
    """

    chain: str
    began_after: str
    last_no: int
    last_hash: str
    cut_no: int = 0
    cut_hash: str = ""

    @property
    def anchor(self) -> str:
        return hashlib.sha256(self.began_after.encode()).hexdigest()

    @property
    def row(self) -> tuple[str, str, int, str]:
        """The values of `HEAD`."""
        return self.chain, self.began_after, self.last_no, self.last_hash

    @property
    def moved(self) -> tuple[int, str, str]:
        """Its new end, and which chain it is of."""
        return self.last_no, self.last_hash, self.chain

    @property
    def beginning(self) -> tuple[int, str]:
        """Number and hash of what the first entry that is there follows."""
        return (self.cut_no, self.cut_hash) if self.cut_no else (0, self.anchor)


class Chain:
    """A chain that one writer adds to. `link` moves on; `keep` after the commit; `undo` after a rollback.

    >>> chain = Chain("01J9", began_after([]))
    >>> number, digest = chain.link((1, None, None, 0, "cli", "queue.pause", "emails", "r1", None, None, None))
    >>> number, len(digest), chain.head.last_no
    (1, 64, 1)
    """

    __slots__ = ("_began_after", "_kept", "_last", "name")

    def __init__(self, name: str, after: str) -> None:
        self.name = name
        self._began_after = after
        self._last = self._kept = (0, Head(name, after, 0, "").anchor)

    @property
    def head(self) -> Head:
        return Head(self.name, self._began_after, *self._last)

    @property
    def is_new(self) -> bool:
        """Whether nothing of it is committed yet, so that its head has no row."""
        return self._kept[0] == 0

    def link(self, values: Sequence[Value]) -> tuple[int, str]:
        """The number and the hash of the next entry, which has these values of `COLUMNS`."""
        number, before = self._last
        self._last = number + 1, entry_hash(self.name, number + 1, before, values)
        return self._last

    def keep(self) -> None:
        self._kept = self._last

    def undo(self) -> None:
        self._last = self._kept


def entry_hash(chain: str, number: int, before: str, values: Sequence[Value]) -> str:
    return hashlib.sha256(_encode([chain, number, before, *values])).hexdigest()


def began_after(heads: Iterable[Head]) -> str:
    """What a new chain says of the others: JSON of the latest heads, each with its number and hash."""
    latest = sorted(heads, key=lambda head: head.chain)[-NAMED_HEADS:]
    return named([(head.chain, head.last_no, head.last_hash) for head in latest])


def named(heads: Sequence[Sequence[Any]]) -> str:
    return _encode(heads).decode()


class AuditRows(Protocol):
    """What linking asks of an open transaction."""

    async def chain_heads(self, limit: int) -> list[tuple[Any, ...]]:
        """The youngest chains: (chain, last_no, last_hash) of each, in the order of their names."""
        ...

    async def add_audit(self, rows: Sequence[tuple[Any, ...]], head: Head, *, is_new: bool) -> None:
        """Inserts rows of `LINKED`, and writes the head they lead to: its first row, or over the one there is."""
        ...


class Chains:
    """The chains of one process that no transaction holds. Used by several threads: taking one and putting it back is one
    step each."""

    def __init__(self) -> None:
        self._idle: list[Chain] = []

    def linking(self) -> Linking:
        return Linking(self._idle)


class Linking:
    """Links the audit rows of one transaction, which may be tried more than once.

        with chains.linking() as linking:
            ...begin, change things...
            await linking.write(rows, session)
            ...commit...

    The block ends after the commit. When it raises, the chain goes back as it was if nothing can have been committed; when a
    commit may or may not have happened, nobody knows where the chain ends, and it is given up for a new one.
    """

    __slots__ = ("_chain", "_idle", "_written")

    def __init__(self, idle: list[Chain]) -> None:
        self._idle = idle
        self._chain: Chain | None = None
        self._written = False

    async def write(self, rows: Sequence[tuple[Any, ...]], session: AuditRows) -> None:
        """Links rows of `COLUMNS` and writes them; the last thing but little before the commit. Called again only when what
        it wrote before was rolled back for certain."""
        self._written = False
        chain = self._chain
        if chain is None:
            try:
                chain = self._idle.pop()
            except IndexError:
                heads = await session.chain_heads(NAMED_HEADS)
                chain = Chain(IdMint()(), named(heads))
            self._chain = chain
        else:
            chain.undo()
        name = chain.name
        linked = [(*row, name, *chain.link(row)) for row in rows]
        await session.add_audit(linked, chain.head, is_new=chain.is_new)
        self._written = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        chain, self._chain = self._chain, None
        if chain is None:
            return
        if error is None:
            chain.keep()
        elif self._written or not isinstance(error, Exception):
            return  # it may be committed, or a thread may still be at it
        else:
            chain.undo()
        self._idle.append(chain)
