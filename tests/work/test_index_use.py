"""What claims and agents ask of a long table is found by its index. Of lists see test_list_plans.py."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import event, insert, text

from relevo.agents.index_auditor import IndexAuditor
from relevo.agents.priority_aging_worker import PriorityAgingWorker
from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.work.store.lease import Lease, new_token
from relevo.work.store.statements import labelled, statement
from relevo.work.store.tables import leases
from relevo.work.work_queues import WorkQueues
from tests.support.desk import JOBS, SCOPE, Desk, new

TWO = ("sqlite-alone", "postgres-alone")
LEASES = "ix_relevo_leases_look"
ORDER = {"sqlite": "USING PRIMARY KEY", "postgresql": "pk_relevo_store_ready"}


class Asked:
    """The statements of an installation's cold paths, with their values, as they went to the database."""

    def __init__(self, work_queues: WorkQueues) -> None:
        self.all: list[tuple[str, Any]] = []
        event.listen(work_queues.database.engine.sync_engine, "before_cursor_execute", self._note)

    def _note(self, _: Any, __: Any, sql: str, values: Any, *___: Any) -> None:
        if "FROM relevo_store_" in sql and sql.startswith("SELECT"):
            self.all.append((sql, values))


async def plan(work_queues: WorkQueues, sql: str, values: Any = ()) -> str:
    how = "EXPLAIN QUERY PLAN" if work_queues.dialect == "sqlite" else "EXPLAIN"
    async with work_queues.database.connect() as connection:
        return str((await connection.exec_driver_sql(f"{how} {sql}", values)).all())


async def crowded(desk: Desk) -> None:
    """Much that is over and little that waits, as in a queue that is worked on: then an index is worth its while."""
    await desk.queue(ordering="priority")
    for _ in range(4):
        await desk.ids(*(new(n) for n in range(500)))
        claimed = await desk.claim(500)
        await desk.settle("complete", claimed)
    await desk.ids(*(new(n) for n in range(20)))
    await desk.claim(2)
    others = [
        Lease(new_token(n), 0, 0, "w", "w", 0, 2**53, {f"{n:026}": 0}).row for n in range(1_000)
    ]  # of other queues, and not over
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(insert(leases).values(others))
        if desk.work_queues.dialect == "postgresql":
            await connection.execute(text("ANALYZE relevo_store_messages, relevo_store_leases"))


@pytest.mark.parametrize("lane", TWO, indirect=True)
async def test_claims_are_found_in_order(desk: Desk) -> None:
    await crowded(desk)
    record = await desk.work_queues.queues.lookup(desk.caller, SCOPE, JOBS)
    if desk.work_queues.dialect == "sqlite":
        for sql, values in (
            (labelled("sqlite", 0), (record.id, 5)),
            (statement("sqlite", "pending_page"), (record.id, 0, "", 5)),
            (statement("sqlite", "oldest_waiting"), (record.id, 5)),
        ):
            assert ORDER["sqlite"] in await plan(desk.work_queues, sql, values)
    else:
        waiting = statement("postgresql", "pending_page")
        for place, value in (("$1", str(record.id)), ("$2", "0"), ("$3", "''"), ("$4", "5")):
            waiting = waiting.replace(place, value)
        assert ORDER["postgresql"] in await plan(desk.work_queues, waiting)


@pytest.mark.parametrize("lane", TWO, indirect=True)
@pytest.mark.parametrize("who", ["auditor", "aging", "timeouts"])
async def test_who_looks_through_many_messages_uses_an_index(desk: Desk, who: str) -> None:
    await crowded(desk)
    work_queues = desk.work_queues
    asked = Asked(work_queues)
    order = ORDER[work_queues.dialect]
    wanted = {order, LEASES} if who == "auditor" else {order}
    if who == "auditor":
        await IndexAuditor(work_queues).work()
    elif who == "aging":
        await PriorityAgingWorker(work_queues).work()
    else:
        wanted = {LEASES}
        await VisibilityTimeoutEnforcer(work_queues).work()
    plans = await asyncio.gather(*(plan(work_queues, sql, values) for sql, values in asked.all))
    for name in wanted:
        assert any(name in each for each in plans), (name, asked.all, plans)
    assert not any(
        "Seq Scan on relevo_store_messages" in each or "SCAN relevo_store_messages'" in each for each in plans
    ), plans


@pytest.mark.parametrize("lane", ["postgres-alone"], indirect=True)
@pytest.mark.parametrize(("kind", "rare"), [("few", True), ("many", False)])
async def test_a_claim_by_label_reads_no_whole_table_although_many_carry_another(
    desk: Desk, kind: str, *, rare: bool
) -> None:
    """Once the table has statistics too, which say that a label is carried by half of the messages."""
    await desk.queue()
    for at in range(0, 4_000, 500):
        await desk.ids(*(new(n, labels={"kind": "many" if n % 500 else "few"}) for n in range(at, at + 500)))
    record = await desk.work_queues.queues.lookup(desk.caller, SCOPE, JOBS)
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(text("ANALYZE relevo_store_messages, relevo_store_labels, relevo_store_ready"))
        await connection.execute(text("SET LOCAL plan_cache_mode = force_generic_plan"))
        claim = labelled("postgresql", 1, rare=rare)
        await connection.exec_driver_sql(f"PREPARE claim (bigint, bigint, bigint, text, text) AS {claim}")
        asked = f"EXPLAIN EXECUTE claim ({record.id}, 1, {record.scope_id}, 'kind', '{kind}')"
        lines = [row[0] for row in await connection.exec_driver_sql(asked)]
        await connection.exec_driver_sql("DEALLOCATE claim")
    assert not [line for line in lines if "Seq Scan" in line or "Hash" in line], "\n".join(lines)
