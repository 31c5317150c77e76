"""A PostgreSQL whose text is ordered as a language orders it, as most installations are: signs before digits, case last."""

import uuid

import psycopg
import pytest
from psycopg import sql

from relevo.work.reading.search import MessageFilter
from tests.servers.postgres import PostgresServer
from tests.support.desk import SCOPE, Desk, new
from tests.work.conftest import Lane


@pytest.fixture
def lane(postgres: PostgresServer) -> Lane:
    name = f"english{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres.url("x", "postgres").replace("+x", ""), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'").format(
                sql.Identifier(name)
            )
        )
        row = connection.execute("SELECT '~' < '0' COLLATE \"en-x-icu\"").fetchone()
        assert row == (True,)
    return Lane(postgres.url("x", name).replace("+x", ""), None, "sql")


async def test_all_messages_are_listed_page_by_page(desk: Desk) -> None:
    await desk.queue()
    ids = await desk.ids(*(new(n) for n in range(5)))
    found: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        page = await desk.work_queues.search.list(desk.caller, SCOPE, MessageFilter(), limit=2, cursor=cursor)
        found += [each.id for each in page.items]
        cursor = page.next_cursor
    assert found == ids[::-1]
    assert cursor is None


async def test_messages_are_claimed_in_their_order_and_completed(desk: Desk) -> None:
    await desk.queue(ordering="priority")
    ids = await desk.ids(*(new(n, labels={"Ä": "ä"}, idempotency_key=f"K-{n}") for n in range(5)))
    assert [each.id for each in await desk.claim(2, labels={"Ä": "ä"})] == ids[:2]
    claimed = await desk.claim(5)
    assert [each.id for each in claimed] == ids[2:]
    assert {each.state for each in await desk.settle("complete", claimed)} == {"completed"}
