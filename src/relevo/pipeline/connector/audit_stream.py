"""`spark.readStream.format("relevo-work")`: the audit of the work queues as a stream of changes, every entry once.

Ids of rows do not come in order: a transaction that began earlier may commit later. Chains do (work/store/audit_chain.py): a
transaction has a chain for itself, and the entries of a chain are numbered without a gap. So an offset says how far each
chain was read, and no late commit is missed. Rows are found by their ids all the same: those below `after` are known to be
read, because they were there a while ago and no transaction lasts that long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from sqlalchemy import Connection, func, select
from sqlalchemy.engine import URL

from relevo.errors import DataLost
from relevo.pipeline.connector.spark_api import (
    HAS_READ_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from relevo.pipeline.connector.work_database import opened
from relevo.work.store.views import audit, audit_chains

log = logging.getLogger("relevo.spark")

_LONGEST_TRANSACTION_MS = 15 * 60_000
_MARK_EVERY_MS = 60_000
_PAGE = 5000


@dataclass(frozen=True)
class AuditOffset:
    """How far each chain was read, and where in the table to look for what comes."""

    chains: Mapping[str, int] = field(default_factory=dict[str, int])
    after: int = 0
    """Rows up to this id are read, whichever chain they are of."""
    upto: int = 0
    """The newest id when this was told."""
    marks: tuple[tuple[int, int], ...] = ()
    """Times in milliseconds, and the newest id at each."""

    @staticmethod
    def parse(told: Mapping[str, Any]) -> AuditOffset:
        marks = tuple((int(at), int(newest)) for at, newest in told["marks"])
        return AuditOffset(dict(told["chains"]), int(told["after"]), int(told["upto"]), marks)

    def json(self) -> dict[str, Any]:
        marks = [[at, newest] for at, newest in self.marks]
        return {"chains": dict(self.chains), "after": self.after, "upto": self.upto, "marks": marks}

    def of(self, chain: str) -> int:
        return self.chains.get(chain, 0)

    def moved(self, chains: Mapping[str, int], newest: int, now_ms: int, *, whole: bool) -> AuditOffset:
        """The offset after reading `chains`. Only when all there was is read may what lies behind be passed over.

        >>> then = AuditOffset().moved({"a": 2}, 2, 0, whole=True)
        >>> then.moved({"a": 3}, 3, 20 * 60_000, whole=True).after
        2
        """
        old = [newest_then for at, newest_then in self.marks if at <= now_ms - _LONGEST_TRANSACTION_MS]
        kept = tuple(mark for mark in self.marks if mark[0] > now_ms - _LONGEST_TRANSACTION_MS)
        if whole and (not kept or kept[-1][0] <= now_ms - _MARK_EVERY_MS):
            kept = (*kept, (now_ms, newest))
        return AuditOffset({**self.chains, **chains}, max(self.after, *old, 0), newest, kept)


class EntryRange(InputPartition):
    """Entries of some chains, among the rows of a range of ids."""

    def __init__(self, after: int, upto: int, chains: dict[str, tuple[int, int]]) -> None:
        self.after = after
        self.upto = upto
        self.chains = chains


class AuditStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of one streaming query over the audit."""

    def __init__(self, url: URL, schema: Any, *, from_latest: bool, max_rows: int | None, fails_on_loss: bool) -> None:
        self._url = url
        self._schema = schema
        self._from_latest = from_latest
        self._max_rows = max_rows
        self._fails_on_loss = fails_on_loss
        self._target: dict[str, int] | None = None
        self._reached: dict[str, Any] | None = None
        if max_rows is not None and not HAS_READ_LIMITS:
            log.warning("maxRowsPerTrigger needs Spark 4.2: a batch takes all there is")

    # --- on the driver ---------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if not self._from_latest:
            return AuditOffset().json()
        heads, newest = self._heads()
        return (
            AuditOffset()
            .moved({chain: last for chain, (last, _) in heads.items()}, newest, _now_ms(), whole=True)
            .json()
        )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._max_rows is None else ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {chain: last for chain, (last, _) in self._heads()[0].items()}

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Before Spark 4.2 neither is given, and the next batch begins where the last one that we told of ended."""
        begun = start or self._reached or self.initialOffset()
        self._reached = self._next(begun, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        return self._reached

    def _next(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        begun = AuditOffset.parse(start)
        heads, newest = self._heads()
        ends: dict[str, int] = {}
        left = most
        whole = True
        for chain, (last, cut) in sorted(heads.items()):
            if cut > begun.of(chain):
                self._tell_lost(chain, begun.of(chain), cut, last)
            end = last if self._target is None else min(last, self._target.get(chain, 0))
            behind = end - begun.of(chain)
            if behind <= 0:
                continue
            taken = behind if left is None else min(behind, left)
            if taken:
                ends[chain] = begun.of(chain) + taken
            whole = whole and taken == behind
            left = None if left is None else left - taken
        return begun.moved(ends, newest, _now_ms(), whole=whole).json() if ends else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, ended = AuditOffset.parse(start), AuditOffset.parse(end)
        chains = {chain: (begun.of(chain), last) for chain, last in ended.chains.items() if last > begun.of(chain)}
        return [EntryRange(begun.after, ended.upto, chains)] if chains else []

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: what was read stays where it is."""

    def _heads(self) -> tuple[dict[str, tuple[int, int]], int]:
        """The last number of every chain, up to which it was cut, and the newest id. The id is asked last: every entry that a
        head tells of lies below it."""
        with opened(self._url) as connection:
            asked = select(audit_chains.c.chain, audit_chains.c.last_no, audit_chains.c.cut_no)
            heads = {chain: (last, cut) for chain, last, cut in connection.execute(asked).all()}
        with opened(self._url) as connection:
            newest = connection.execute(select(func.max(audit.c.id))).scalar() or 0
        return heads, newest

    def _tell_lost(self, chain: str, after: int, cut: int, last: int) -> None:
        if self._fails_on_loss:
            raise DataLost(stream=f"audit chain {chain}", after=after, start=after + 1, end=last, oldest=cut + 1)
        log.warning("entries %d to %d of audit chain %s were deleted before they were read", after + 1, cut, chain)

    # --- in a task -------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, EntryRange):  # Spark's own stand-in for "no partitions"
            return
        with opened(self._url) as connection:
            for page in entries(connection, partition, [audit.c[name] for name in self._schema.names]):
                values = zip(*page, strict=True)
                arrays = [pa.array(each, kind.type) for each, kind in zip(values, self._schema, strict=True)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)  # pyright: ignore[reportUnknownMemberType]


def entries(connection: Connection, partition: EntryRange, columns: Sequence[Any]) -> Iterator[list[Any]]:
    """The entries of a range, some at a time and never none: of each these columns."""
    at = partition.after
    while True:
        query = select(audit.c.id, audit.c.chain, audit.c.chain_no, *columns).where(audit.c.id > at)
        page = connection.execute(query.where(audit.c.id <= partition.upto).order_by(audit.c.id).limit(_PAGE)).all()
        if kept := [row[3:] for row in page if _within(partition.chains.get(row[1]), row[2])]:
            yield kept
        if len(page) < _PAGE:
            return
        at = page[-1][0]


def _within(ends: tuple[int, int] | None, number: int) -> bool:
    return ends is not None and ends[0] < number <= ends[1]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
