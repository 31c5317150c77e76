"""Audits that were written by an installation, on each of the three databases, to be tampered with."""

import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select

from relevo.work.audit.integrity import AuditIntegrity
from relevo.work.audit.verifier import Finding
from relevo.work.store.database import Database
from relevo.work.store.tables import audit, audit_chains
from relevo.work.store.transactions import Transactions
from tests.clock import Clock
from tests.servers.stores import store_url
from tests.support.desk import Desk, a_desk, emptied, open_work_queues

_written: dict[str, str] = {}
"""Databases with an audit, by store: made once a process, because that takes longer than the tests."""


def own_database(request: pytest.FixtureRequest, store: str, folder: Path) -> str:
    """A database that no other test empties."""
    return store_url(request, store, folder, name=f"a{uuid.uuid4().hex[:12]}")


@pytest.fixture
async def desk(database_url: str, clock: Clock) -> AsyncGenerator[Desk]:
    await emptied(database_url)
    async with open_work_queues(database_url, clock) as work_queues:
        made = await a_desk(work_queues, clock)
        await made.queue()
        yield made


class Record:
    """An audit of two chains, which a test changes behind relevo's back."""

    def __init__(self, database: Database, rows: list[dict[str, Any]], heads: list[dict[str, Any]]) -> None:
        self.database = database
        self.rows = rows
        self.heads = heads
        self.chain = [row for row in rows if row["chain"] == heads[0]["chain"]]
        """The rows of the older chain, which is the longer one."""

    async def execute(self, *statements: Any) -> None:
        async with self.database.begin() as connection:
            for statement in statements:
                await connection.execute(statement)

    async def findings(self, **known: Any) -> list[Finding]:
        integrity = AuditIntegrity(Transactions(self.database, lambda: 0), self.database, lambda: 0)
        return (await integrity.verify(**known)).findings

    async def found(self, **known: Any) -> list[tuple[str, int | None]]:
        """Kinds of findings, and the rows they name."""
        return [(finding.kind, finding.id) for finding in await self.findings(**known)]


@pytest.fixture
async def record(
    request: pytest.FixtureRequest, store: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Record]:
    if store not in _written:
        _written[store] = await _write(own_database(request, store, tmp_path_factory.mktemp("audit")))
    database = Database(_written[store])
    async with database.connect() as connection:
        rows = [dict(row) for row in (await connection.execute(select(audit).order_by(audit.c.id))).mappings()]
        heads = (await connection.execute(select(audit_chains).order_by(audit_chains.c.chain))).mappings()
        record = Record(database, rows, [dict(head) for head in heads])
    yield record
    await record.execute(
        delete(audit), delete(audit_chains), insert(audit).values(rows), insert(audit_chains).values(record.heads)
    )
    await database.close()


async def _write(url: str) -> str:
    """Two offices, so that there are two chains; with every column filled in some row."""
    clock = Clock()
    async with open_work_queues(url, clock) as one, open_work_queues(url, clock) as other:
        desk = await a_desk(one, clock)
        await desk.queue()
        await one.queues.change(desk.caller, "main", "jobs", {"max_retries": 9})
        (message_id, *_) = await desk.publish(2, correlation_id="order-17")
        await one.messages.cancel(desk.caller, "main", message_id)
        await desk.settle("complete", await desk.claim())
        await other.queues.change(desk.caller, "main", "jobs", {"max_retries": 3})
        await desk.at(other).publish(correlation_id="order-18")
    return url
