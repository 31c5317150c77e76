"""The agent that verifies the audit: what was changed is told once in `_integrity`, of what is whole nothing is said."""

import logging

import msgspec
import pytest
from sqlalchemy import select, update

from relevo.agents.audit_watch import AuditWatch
from relevo.work.store.tables import audit
from tests.support.desk import Desk


async def walked(desk: Desk) -> int:
    agent = AuditWatch(desk.work_queues, pages=1)
    while (batch := await agent.work()).more:
        pass
    return batch.items


async def test_a_sound_audit_is_not_spoken_of(desk: Desk) -> None:
    await desk.publish(2)
    assert await walked(desk) == 0
    assert await desk.claim(10, "_integrity") == []


async def test_an_edit_is_told_once_in_the_scope_of_the_row(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    await desk.publish(1)
    async with desk.work_queues.database.begin() as connection:
        row = (await connection.execute(select(audit.c.id).where(audit.c.action == "message.publish"))).scalar_one()
        await connection.execute(update(audit).where(audit.c.id == row).values(actor="nobody"))
    with caplog.at_level(logging.ERROR, "relevo.work.integrity"):
        assert await walked(desk) == 1
    assert "relevo audit verify" in caplog.text
    assert await walked(desk) == 1
    (told,) = await desk.claim(10, "_integrity")
    assert told.message_type == "found.audit_edited"
    assert msgspec.json.decode(told.body)["id"] == row


async def test_an_edit_of_an_entry_of_no_scope_is_in_the_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(update(audit).where(audit.c.action == "tenant.create").values(actor="nobody"))
    with caplog.at_level(logging.ERROR, "relevo.work.integrity"):
        assert await walked(desk) == 1
    assert "1 findings" in caplog.text
    assert await desk.claim(10, "_integrity") == []
