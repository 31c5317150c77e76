"""Entries from before there were chains become the first one, as they are."""

from pathlib import Path

import pytest
from sqlalchemy import text

from relevo.work.audit.integrity import AuditIntegrity
from relevo.work.store import schema
from relevo.work.store.database import Database
from relevo.work.store.transactions import Transactions
from tests.audit.conftest import own_database

_ROW = (
    "INSERT INTO relevo_audit (tenant_id, at, actor, action, target, request_id, {after}) "
    "VALUES (1, 5, 'cli', 'queue.create', 'q{n}', 'r', '{{}}')"
)


@pytest.mark.parametrize("count", [0, 3, 1_001])
async def test_an_upgrade_links_the_entries_there_are(
    request: pytest.FixtureRequest, store: str, tmp_path: Path, count: int
) -> None:
    database = Database(own_database(request, store, tmp_path))
    await schema.upgrade(database, "0004")
    after = "`after`" if database.dialect == "mariadb" else '"after"'
    async with database.begin() as connection:
        for n in range(count):
            await connection.execute(text(_ROW.format(after=after, n=n)))
    await schema.upgrade(database)
    verdict = await AuditIntegrity(Transactions(database, lambda: 0), database, lambda: 0).verify()
    await database.close()
    assert (verdict.entries, verdict.chains, verdict.findings) == (count, min(count, 1), [])
