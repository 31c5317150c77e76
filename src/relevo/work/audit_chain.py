"""The hash chains of the audit: an entry carries the hash of the one before it, so that no edit and no gap goes unseen.

One chain for all would make every transaction of every process wait for the one before. So there are many: each writer adds
to a chain of its own, taken for the length of one transaction, and no two transactions share one. The head of each chain
(its last number and hash) is a row of its own, written in the same transaction, so a cut-off end is seen too. A new chain
names the latest heads there are when it begins, so a chain that is missing as a whole is seen in those that began after it.

Whoever can write to the database can also compute hashes: to hold against that, keep the heads somewhere else now and then
(`relevo audit heads`) and pass them to `relevo audit verify --heads`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

COLUMNS = (
    *("tenant_id", "scope_id", "queue_id", "at", "actor", "action", "target", "request_id", "correlation_id"),
    *("before", "after"),
)
"""What the hash covers, in this order."""

NAMED_HEADS = 50
"""Chains that a new one names; the names of chains are ULIDs, so these are the youngest."""

Value = int | str | None
_encode = msgspec.json.Encoder().encode


class Head(msgspec.Struct, frozen=True):
    """Where a chain ends. `began_after` names the heads there were when it began; its first entry follows their hash."""

    chain: str
    began_after: str
    last_no: int
    last_hash: str

    @property
    def anchor(self) -> str:
        return hashlib.sha256(self.began_after.encode()).hexdigest()


class Chain:
    """A chain that one writer adds to. `link` moves on; `keep` after the commit; `undo` after a rollback.

    >>> chain = Chain("01J9", began_after([]))
    >>> number, digest = chain.link((1, None, None, 0, "cli", "queue.pause", "emails", "r1", None, None, None))
    >>> number, len(digest), chain.head.last_no
    (1, 64, 1)
    """

    def __init__(self, chain: str, after: str) -> None:
        fresh = Head(chain, after, 0, "")
        self.head = msgspec.structs.replace(fresh, last_hash=fresh.anchor)
        self._kept = self.head

    def link(self, values: Sequence[Value]) -> tuple[int, str]:
        """The number and the hash of the next entry, which has these values of `COLUMNS`."""
        number = self.head.last_no + 1
        digest = entry_hash(self.head.chain, number, self.head.last_hash, values)
        self.head = msgspec.structs.replace(self.head, last_no=number, last_hash=digest)
        return number, digest

    def keep(self) -> None:
        self._kept = self.head

    def undo(self) -> None:
        self.head = self._kept


def entry_hash(chain: str, number: int, before: str, values: Sequence[Value]) -> str:
    return hashlib.sha256(_encode([chain, number, before, *values])).hexdigest()


def began_after(heads: Iterable[Head]) -> str:
    """What a new chain says of the others: JSON of the latest heads, each with its number and hash."""
    latest = sorted(heads, key=lambda head: head.chain)[-NAMED_HEADS:]
    return _encode([(head.chain, head.last_no, head.last_hash) for head in latest]).decode()


class Entry(msgspec.Struct, frozen=True):
    """An audit row with its place in its chain."""

    id: int
    chain: str
    number: int
    hash: str
    values: tuple[Value, ...]


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it was written."""

    kind: Literal["edited", "missing", "cut_off", "unknown_chain", "chain_missing", "head_changed", "unchained"]
    chain: str
    number: int
    detail: str


class Verifier:
    """Walks the entries, chain by chain in the order of their numbers, and notes what is wrong. Holds one entry a chain, so
    an audit of any length can be walked."""

    def __init__(self, heads: Iterable[Head], *, known: Mapping[str, tuple[int, str]] | None = None) -> None:
        self.findings: list[Finding] = []
        self.entries = 0
        self._heads = {head.chain: head for head in heads}
        self._at = {chain: (0, head.anchor) for chain, head in self._heads.items()}
        self._noted: dict[tuple[str, int], list[str]] = {}
        """Entries somebody has vouched for, with the hashes they gave."""
        for chain, (number, digest) in (known or {}).items():
            self._vouch(chain, number, digest)
        for head in self._heads.values():
            for chain, number, digest in msgspec.json.decode(head.began_after, type=list[tuple[str, int, str]]):
                self._vouch(chain, number, digest)

    def _vouch(self, chain: str, number: int, digest: str) -> None:
        if number:  # a chain without entries says nothing
            self._noted.setdefault((chain, number), []).append(digest)

    def add(self, entry: Entry) -> None:
        self.entries += 1
        if entry.chain not in self._heads:
            self._find("unknown_chain", entry.chain, entry.number, f"entry {entry.id} is of a chain that has no head")
            self._heads[entry.chain] = Head(entry.chain, "[]", entry.number, entry.hash)
            self._at[entry.chain] = (entry.number, entry.hash)
            return
        number, before = self._at[entry.chain]
        if entry.number != number + 1:
            self._find("missing", entry.chain, number + 1, f"entries {number + 1} to {entry.number - 1} are not there")
        elif entry_hash(entry.chain, entry.number, before, entry.values) != entry.hash:
            self._find("edited", entry.chain, entry.number, f"entry {entry.id} is not as it was written")
        if any(digest != entry.hash for digest in self._noted.pop((entry.chain, entry.number), ())):
            self._find("edited", entry.chain, entry.number, f"entry {entry.id} is another than the one vouched for")
        self._at[entry.chain] = (entry.number, entry.hash)

    def finish(self) -> list[Finding]:
        """All findings, after the last entry."""
        for chain, head in self._heads.items():
            number, digest = self._at[chain]
            if number < head.last_no:
                self._find("cut_off", chain, number + 1, f"it ends at {number}, its head says {head.last_no}")
            elif digest != head.last_hash or number > head.last_no:
                self._find("head_changed", chain, number, "its head does not fit its last entry")
        for chain, number in self._noted:
            if chain not in self._heads:
                self._find("chain_missing", chain, number, "the whole chain is gone; others or kept heads name it")
            elif self._at[chain][0] < number:
                self._find("cut_off", chain, number, f"entry {number} was there when its head was noted elsewhere")
        return self.findings

    def _find(self, kind: str, chain: str, number: int, detail: str) -> None:
        self.findings.append(
            msgspec.convert({"kind": kind, "chain": chain, "number": number, "detail": detail}, Finding)
        )
