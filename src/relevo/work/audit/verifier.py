"""Finds what was changed in the audit after it was written: see `relevo.work.store.audit_chain` for how it is chained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from relevo.work.store.audit_chain import Head, Value, entry_hash

CUT = "audit.cut"
"""The action of the entries that tell which others were removed on purpose."""


class Entry(msgspec.Struct, frozen=True):
    """An audit row with its place in its chain. `cuts`: what an entry with the action `CUT` tells."""

    id: int
    chain: str | None
    number: int
    hash: str
    values: tuple[Value, ...]
    cuts: Mapping[str, tuple[int, str]] = {}


Kind = Literal[
    "edited",
    "missing",
    "cut_off",
    "unknown_chain",
    "chain_missing",
    "head_changed",
    "unchained",
    "beyond_head",
    "cut_unrecorded",
]


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it was written. `id` is the row that shows it; None when the rows themselves are gone."""

    kind: Kind
    chain: str
    number: int
    id: int | None
    detail: str


class _Place(msgspec.Struct, frozen=True):
    """How far a chain was walked."""

    number: int
    hash: str
    id: int | None = None


class Verifier:
    """Walks the entries in the order of their ids and notes what is wrong. Holds one entry a chain, so an audit of any length
    can be walked, and while others write to it: `heads` were read before the first entry, those given to `finish` after the
    last. What was written in between is known by the later heads and verified by the next walk.
    """

    def __init__(self, heads: Iterable[Head], *, known: Mapping[str, tuple[int, str]] | None = None) -> None:
        self.findings: list[Finding] = []
        self.entries = 0
        self._heads = {head.chain: head for head in heads}
        self._at = {chain: _Place(*head.beginning) for chain, head in self._heads.items()}
        self._gaps: dict[Finding, int] = {}
        """The last number of each gap: it may turn out to have been cut while we walked."""
        self._later: dict[str, tuple[int, int]] = {}
        """Chains with entries that the heads do not know: the highest number, and its row."""
        self._recorded: set[tuple[str, int, str]] = set()
        self._noted: dict[tuple[str, int], list[str]] = {}
        """Entries somebody has vouched for, with the hashes they gave."""
        for chain, (number, digest) in (known or {}).items():
            self._vouch(chain, number, digest)
        for head in self._heads.values():
            for chain, number, digest in msgspec.json.decode(head.began_after, type=list[tuple[str, int, str]]):
                self._vouch(chain, number, digest)

    def _vouch(self, chain: str, number: int, digest: str) -> None:
        head = self._heads.get(chain)
        if number and (head is None or number > head.cut_no):  # a chain without entries says nothing
            self._noted.setdefault((chain, number), []).append(digest)

    def add(self, entry: Entry) -> None:
        self.entries += 1
        chain = entry.chain
        if chain is None:
            self._find("unchained", "", 0, entry.id, f"entry {entry.id} is in no chain: it was not written by relevo")
            return
        self._recorded.update((cut, *place) for cut, place in entry.cuts.items())
        head, place = self._heads.get(chain), self._at.get(chain)
        if head is None or place is None or entry.number > head.last_no:
            self._later[chain] = max(self._later.get(chain, (0, 0)), (entry.number, entry.id))
            return
        if entry.number > place.number + 1:
            self._find("missing", chain, place.number + 1, entry.id, _gap(place, entry))
            self._gaps[self.findings[-1]] = entry.number - 1
        elif entry.number <= place.number:
            self._find("edited", chain, entry.number, entry.id, f"entry {entry.id} does not belong after {place.id}")
            return
        elif entry_hash(chain, entry.number, place.hash, entry.values) != entry.hash:
            last = "the beginning of its chain" if place.id is None else f"entry {place.id}"
            told = f"entry {entry.id} is not as it was written, or {last}, which it follows, was changed with its hash"
            self._find("edited", chain, entry.number, entry.id, told)
        if any(digest != entry.hash for digest in self._noted.pop((chain, entry.number), ())):
            told = f"entry {entry.id} is another than the one vouched for"
            self._find("edited", chain, entry.number, entry.id, told)
        self._at[chain] = _Place(entry.number, entry.hash, entry.id)

    def finish(self, latest: Iterable[Head] | None = None) -> list[Finding]:
        """All findings, after the last entry. `latest` are the heads as they are now; None when nobody wrote meanwhile."""
        now = self._heads if latest is None else {head.chain: head for head in latest}
        cut = {chain: head.cut_no for chain, head in now.items()}
        gaps = {found for found, last in self._gaps.items() if last <= cut.get(found.chain, 0)}  # cut while we walked
        self.findings[:] = [found for found in self.findings if found not in gaps]
        for chain, head in self._heads.items():
            place = self._at[chain]
            if place.number < head.last_no:
                if cut.get(chain, 0) < head.last_no:  # else it was cut while we walked
                    told = f"it ends at {place.number}, its head says {head.last_no}"
                    self._find("cut_off", chain, place.number + 1, place.id, told)
            elif place.hash != head.last_hash:
                self._find("head_changed", chain, place.number, place.id, "its head does not fit its last entry")
            if head.cut_no and (chain, head.cut_no, head.cut_hash) not in self._recorded:
                told = f"entries up to {head.cut_no} are gone, and no entry tells of it"
                self._find("cut_unrecorded", chain, head.cut_no, None, told)
        for chain, (number, entry_id) in self._later.items():
            if chain not in now:
                told = f"entry {entry_id} is of a chain that has no head"
                self._find("unknown_chain", chain, number, entry_id, told)
            elif number > now[chain].last_no:
                told = f"entry {entry_id} lies beyond the end of its chain, which is {now[chain].last_no}"
                self._find("beyond_head", chain, number, entry_id, told)
        for chain, number in self._noted:
            if chain not in self._heads:
                self._find(
                    "chain_missing", chain, number, None, "the whole chain is gone; others or kept heads name it"
                )
            elif self._at[chain].number < number and number > self._heads[chain].last_no:  # else it is told already
                told = f"entry {number} was there when its head was noted elsewhere"
                self._find("cut_off", chain, number, self._at[chain].id, told)
        return self.findings

    def _find(self, kind: Kind, chain: str, number: int, entry_id: int | None, detail: str) -> None:
        self.findings.append(Finding(kind, chain, number, entry_id, detail))


def _gap(place: _Place, entry: Entry) -> str:
    first, last = place.number + 1, entry.number - 1
    where = f"before entry {entry.id}" if place.id is None else f"between entries {place.id} and {entry.id}"
    what = f"number {first} is" if first == last else f"numbers {first} to {last} are"
    return f"{what} not there: removed {where}"
