"""Whether the audit is as it was written, and its ends: verifying, noting the heads, and cutting off what is too old.

These look at the audit of the whole installation, whose chains run through all tenants: they are for whoever owns the
database, not for a tenant's key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.errors import InvalidInput
from relevo.work.audit.verifier import CUT, Entry, Finding, Verifier
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.store.audit_chain import COLUMNS, Head
from relevo.work.store.database import Database
from relevo.work.store.tables import audit, audit_chains
from relevo.work.store.transactions import SqlUnitOfWork, Transactions

PAGE = 1_000
_TOLD_AT_ONCE = 500
"""Chains that one entry about cuts names."""

_ACTION, _AFTER = COLUMNS.index("action"), COLUMNS.index("after")
_Cuts = dict[str, tuple[int, str]]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a walk through the whole audit saw."""

    entries: int
    chains: int
    cut: int
    """Entries that were removed on purpose, which the audit tells."""
    findings: list[Finding]

    @property
    def sound(self) -> bool:
        return not self.findings


class AuditIntegrity:
    """The audit of one database."""

    def __init__(self, transactions: Transactions, database: Database, now_ms: Clock) -> None:
        self._transactions = transactions
        self._database = database
        self._now_ms = now_ms

    async def heads(self) -> list[Head]:
        """Where every chain ends now."""
        async with self._database.connect() as connection:
            return await _heads(connection)

    async def entries(self) -> int:
        """About how many there are, to say how far a walk is."""
        async with self._database.connect() as connection:
            return int((await connection.execute(select(func.count()).select_from(audit))).scalar_one())

    async def verify(
        self, *, known: Mapping[str, tuple[int, str]] | None = None, told: Callable[[int], None] = lambda _: None
    ) -> Verdict:
        """Walks all entries, also while others write. `known` are heads that were noted elsewhere; `told` hears how many
        entries were walked."""
        walk = await self.walk(known=known)
        while await walk.step():
            told(walk.entries)
        return await walk.end()

    async def walk(self, *, known: Mapping[str, tuple[int, str]] | None = None) -> AuditWalk:
        """A walk to be done in steps, by whoever has something else to do in between."""
        return AuditWalk(self, await self.heads(), known)

    async def cut(self, caller: Caller, before_ms: int, *, told: Callable[[int], None] = lambda _: None) -> int:
        """Removes the entries from before a moment, and returns how many. Each chain loses a piece at its beginning and says
        so in its head, and an entry tells who had it removed: a cut that no entry tells of is found by `verify`."""
        caller.require_unlimited("manage")
        if before_ms >= self._now_ms():
            raise InvalidInput(where="before", reason="it lies in the future; name a moment that has passed")
        await self._tell_again(caller)
        removed, kept, last = 0, set[str](), -1
        while page := await self.page(last):
            last = page[-1]["id"]
            old: dict[str, list[Any]] = {}
            for row in page:
                if row["chain"] is None:
                    continue  # not ours: it stays, for `verify` to find
                if row["at"] >= before_ms:
                    kept.add(row["chain"])  # a chain has no holes: what follows stays too
                elif row["chain"] not in kept:
                    old.setdefault(row["chain"], []).append(row)
            if old:
                await self._cut_page(caller, old)
                removed += sum(map(len, old.values()))
                told(removed)
            elif page[0]["at"] >= before_ms:
                break  # ids and times go up together, but for clocks that differ a little
        return removed

    async def _cut_page(self, caller: Caller, old: Mapping[str, Sequence[Any]]) -> None:
        cuts: _Cuts = {chain: (rows[-1]["chain_no"], rows[-1]["hash"]) for chain, rows in old.items()}

        async def cut(unit: SqlUnitOfWork) -> None:
            for chain, (number, digest) in sorted(cuts.items()):  # in one order: somebody else may cut too
                moved = update(audit_chains).where(audit_chains.c.chain == chain, audit_chains.c.cut_no < number)
                await unit.connection.execute(moved.values(cut_no=number, cut_hash=digest))
            ids = [row["id"] for rows in old.values() for row in rows]
            await unit.connection.execute(delete(audit).where(audit.c.id.in_(ids)))
            _tell(unit, caller, cuts)

        await self._transactions.run(cut)

    async def _tell_again(self, caller: Caller) -> None:
        """The entries that told of earlier cuts are about to be cut themselves: what they say is said anew, first."""
        cuts: _Cuts = {head.chain: (head.cut_no, head.cut_hash) for head in await self.heads() if head.cut_no}
        if cuts:

            async def tell(unit: SqlUnitOfWork) -> None:
                _tell(unit, caller, cuts)

            await self._transactions.run(tell)

    async def page(self, after: int) -> Sequence[Any]:
        """The next entries behind an id, with their links."""
        columns = [audit.c[name] for name in ("id", "chain", "chain_no", "hash", *COLUMNS)]
        query = select(*columns).where(audit.c.id > after).order_by(audit.c.id).limit(PAGE)
        async with self._database.connect() as connection:
            return (await connection.execute(query)).mappings().all()


class AuditWalk:
    """One walk through all entries, page by page."""

    def __init__(
        self, integrity: AuditIntegrity, heads: Sequence[Head], known: Mapping[str, tuple[int, str]] | None
    ) -> None:
        self._integrity = integrity
        self._heads = heads
        self._verifier = Verifier(heads, known=known)
        self._last = -1

    @property
    def entries(self) -> int:
        return self._verifier.entries

    async def step(self) -> bool:
        """Verifies the next page; false when there is none."""
        page = await self._integrity.page(self._last)
        for row in page:
            self._verifier.add(_entry(row))
        if page:
            self._last = page[-1]["id"]
        return bool(page)

    async def end(self) -> Verdict:
        findings = self._verifier.finish(await self._integrity.heads())
        cut = sum(head.cut_no for head in self._heads)
        return Verdict(entries=self.entries, chains=len(self._heads), cut=cut, findings=findings)


def _tell(unit: SqlUnitOfWork, caller: Caller, cuts: _Cuts) -> None:
    named = sorted(cuts.items())
    for at in range(0, len(named), _TOLD_AT_ONCE):
        some = dict(named[at : at + _TOLD_AT_ONCE])
        unit.audit(caller, CUT, "audit", after={"cuts": some})


async def _heads(connection: AsyncConnection) -> list[Head]:
    columns = [audit_chains.c[name] for name in Head.__struct_fields__]
    rows = await connection.execute(select(*columns).order_by(audit_chains.c.chain))
    return [Head(*row) for row in rows]


def _entry(row: Any) -> Entry:
    values = tuple(row[name] for name in COLUMNS)
    cuts: _Cuts = {}
    if values[_ACTION] == CUT:
        try:
            cuts = msgspec.json.decode(values[_AFTER], type=dict[str, _Cuts])["cuts"]
        except (msgspec.MsgspecError, KeyError, TypeError):
            cuts = {}  # an edited entry tells of nothing; that it was edited is found by its hash
    return Entry(row["id"], row["chain"], row["chain_no"] or 0, row["hash"] or "", values, cuts)
