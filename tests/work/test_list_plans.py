"""Every list of the API is answered along an index: its statements are asked for their plans, on each database. None goes
through a whole table that grows with the messages, and none sorts what it has found there."""

import re
from typing import Any

import pytest
from sqlalchemy import event, insert, text

from relevo.agents.message_archiver import MessageArchiver
from relevo.work.audit.entries import Audit, AuditFilter
from relevo.work.dead_letters.listing import DeadLetterFilter
from relevo.work.reading.message_filter import MessageFilter
from relevo.work.store import tables
from relevo.work.work_queues import WorkQueues
from tests.support.desk import SCOPE, Desk, new

GROWING = ("messages", "archive", "search", "labels", "audit", "keys", "ready")
"""Tables with a row a message, or a call."""
IS_GROWING = rf"relevo_store_({'|'.join(GROWING)})\b"
ONE_PATH = ("sqlite-alone", "postgres-alone", "mariadb-alone")

FILTERS: dict[str, dict[str, Any]] = {
    "newest": {},
    "queue": {"queue": "jobs"},
    "empty queue": {"queue": "other"},
    "pending": {"state": "pending"},
    "claimed": {"state": "claimed"},
    "completed": {"state": "completed"},
    "completed in a queue": {"state": "completed", "queue": "jobs"},
    "delayed": {"state": "delayed"},
    "dead": {"state": "dead"},
    "dead of a queue": {"state": "dead", "queue": "jobs"},
    "failed": {"state": "failed"},
    "archived": {"state": "archived"},
    "not archived": {"archived": False},
    "type": {"message_type": "invoice"},
    "type in a queue": {"message_type": "invoice", "queue": "jobs"},
    "type of nobody": {"message_type": "nobody"},
    "source": {"source_id": "shop-7", "queue": "jobs"},
    "correlation": {"correlation_id": "order-7"},
    "parent": {"parent_id": "01M7RYX9GH6WC582Y6GG0T4XB4"},
    "key": {"idempotency_key": "key-7"},
    "label": {"labels": {"customer": "c7"}},
    "two labels": {"labels": {"customer": "c7", "country": "k1"}},
    "label and type": {"labels": {"country": "k1"}, "message_type": "invoice"},
    "time": {"since": 1, "until": 2**42},
}
LETTERS: tuple[dict[str, Any], ...] = (
    {},
    {"queue": "jobs"},
    {"message_type": "invoice"},
    {"labels": {"customer": "c7"}},
)
ENTRIES: tuple[dict[str, Any], ...] = ({}, {"actor": "nobody"}, {"target": "jobs"}, {"correlation_id": "order-7"})


class Asked:
    """The statements of an installation, each form of them once, with their values."""

    def __init__(self, work_queues: WorkQueues) -> None:
        self.all: dict[str, Any] = {}
        event.listen(work_queues.database.engine.sync_engine, "before_cursor_execute", self._note)

    def _note(self, _: Any, __: Any, sql: str, values: Any, *___: Any) -> None:
        if "relevo_store_" in sql and sql.startswith(("SELECT", "WITH")):
            self.all[re.sub(r"IN \([^)]*\)", "IN ()", sql)] = (sql, values)


@pytest.fixture
async def crowded(desk: Desk) -> Desk:
    """Messages of all kinds in each table, most of them over: as many as it takes for an index to be worth its while."""
    await desk.queue()
    await desk.queue("other")
    kinds: list[dict[str, Any]] = [
        {
            "message_type": "invoice" if n % 3 else "order",
            "source_id": f"shop-{n % 50}",
            "correlation_id": f"order-{n % 100}",
            "labels": {"customer": f"c{n % 90}", "country": f"k{n % 2}"},
            "idempotency_key": f"key-{n}",
        }
        for n in range(2_000)
    ]
    for at in range(0, 1_500, 500):
        await desk.ids(*(new(n, **kinds[n]) for n in range(at, at + 500)))
        await desk.settle("complete", await desk.claim(500))
        if at == 500:
            desk.clock.turn(minutes=61)
            await MessageArchiver(desk.work_queues).work()
    await desk.ids(*(new(n, **kinds[n]) for n in range(1_500, 2_000)))
    await desk.settle("fail", await desk.claim(20), dead=True, reason="no use")
    await desk.claim(3)
    await desk.index()
    rows = [
        {"tenant_id": 2**40, "at": 1, "actor": "a", "action": "a", "target": f"t{n}", "request_id": "r"}
        for n in range(2_000)
    ]
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(insert(tables.audit), rows)
    await desk.ids(new(1, message_type="invoice", source_id="shop-7", correlation_id="order-7"))
    if desk.work_queues.dialect != "sqlite":
        names = [f"relevo_store_{name}" for name in GROWING]
        how = "ANALYZE " if desk.work_queues.dialect == "postgresql" else "ANALYZE TABLE "
        async with desk.work_queues.database.begin() as connection:
            await connection.execute(text(how + ", ".join(names)))
    return desk


async def plan_of(work_queues: WorkQueues, sql: str, values: Any) -> list[Any]:
    how = "EXPLAIN QUERY PLAN" if work_queues.dialect == "sqlite" else "EXPLAIN"
    async with work_queues.database.connect() as connection:
        if work_queues.dialect == "postgresql":  # a table of this size is read whole unless that is forbidden
            for setting in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
                await connection.execute(text(f"SET LOCAL {setting} = off"))
        return list((await connection.exec_driver_sql(f"{how} {sql}", values)).mappings())


def faults(sql: str, dialect: str, plan: list[Any]) -> list[str]:
    """What of a plan grows with the messages."""
    sorts: list[str]
    if dialect == "sqlite":
        lines = [str(row["detail"]) for row in plan]
        whole = [each for each in lines if re.match(rf"SCAN {IS_GROWING}(?!.*USING .*INDEX)", each)]
        sorts = [each for each in lines if "TEMP B-TREE FOR ORDER BY" in each]
    elif dialect == "postgresql":
        lines = [str(row["QUERY PLAN"]) for row in plan]
        whole = [each for each in lines if re.search(rf"Seq Scan on {IS_GROWING}", each)]
        sorts = [each for each in lines if re.search(r"\bSort\b", each)]
    else:
        rows = [row for row in plan if re.search(IS_GROWING, str(row["table"]))]
        whole = [str(row) for row in rows if row["type"] in ("ALL", "index")]
        sorts = [str(row) for row in plan if "filesort" in str(row["Extra"])]
    return whole + (sorts if re.search(IS_GROWING, sql) else [])


@pytest.mark.parametrize("lane", ONE_PATH, indirect=True)
async def test_no_list_goes_through_a_whole_table_or_sorts_it(crowded: Desk) -> None:
    work_queues, caller = crowded.work_queues, crowded.caller
    asked = Asked(work_queues)
    for name, wanted in FILTERS.items():
        page = await work_queues.search.list(caller, SCOPE, MessageFilter(**wanted), limit=5)
        if page.next_cursor is not None:
            await work_queues.search.list(caller, SCOPE, MessageFilter(**wanted), limit=5, cursor=page.next_cursor)
        assert bool(page.items) is (name not in ("empty queue", "failed", "delayed", "type of nobody", "parent")), name
    for letters in LETTERS:
        await work_queues.dead_letters.list(caller, SCOPE, DeadLetterFilter(**letters), limit=5)
    for entries in ENTRIES:
        await work_queues.audit.list(caller, AuditFilter(**entries), limit=5)
    await work_queues.traces.of(caller, "order-7")
    for listed in (work_queues.replays, work_queues.erasures, work_queues.rules, work_queues.webhooks):
        await listed.list(caller, SCOPE)
    found = {
        sql: wrong
        for sql, values in asked.all.values()
        if (wrong := faults(sql, work_queues.dialect, await plan_of(work_queues, sql, values)))
    }
    assert len(asked.all) > 30
    assert not found, "\n\n".join(f"{wrong}\n{sql}" for sql, wrong in found.items())


@pytest.mark.parametrize("lane", ONE_PATH, indirect=True)
async def test_the_plan_of_a_walk_through_all_is_seen_to_be_one(crowded: Desk) -> None:
    """The check of the check."""
    work_queues = crowded.work_queues
    for sql in (
        "SELECT id FROM relevo_store_messages WHERE source_id = 'nobody' LIMIT 5",
        "SELECT id FROM relevo_store_archive WHERE queue_id > 0 ORDER BY finished_at DESC LIMIT 5",
    ):
        assert faults(sql, work_queues.dialect, await plan_of(work_queues, sql, ())), sql


@pytest.mark.parametrize("lane", ["sqlite-alone"], indirect=True)
async def test_a_page_of_the_audit_ends_where_it_has_looked_at_so_many(desk: Desk) -> None:
    """Its filters have no index, and its cursor leads on."""
    for n in range(12):
        await desk.queue(f"q{n}")
    audit = Audit(desk.work_queues.database, most_looked_at=5)
    found: list[str] = []
    cursor: str | None = None
    pages = 0
    while pages == 0 or cursor is not None:
        page = await audit.list(desk.caller, AuditFilter(queue="q3"), limit=2, cursor=cursor)
        found += [each.target for each in page.items]
        cursor, pages = page.next_cursor, pages + 1
    assert found == ["q3"]
    assert pages > 2
