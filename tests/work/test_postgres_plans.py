"""However PostgreSQL plans a claim, it takes what was asked and no more.

Rows that are chosen and locked within the join of an UPDATE are chosen anew for each row of the other side when the planner
puts them there, and those just taken are passed over: so a claim of three took the whole queue, and answered three.
"""

import asyncio
import uuid

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text

from relevo.work.store.counters import Depth
from tests.servers.postgres import PostgresServer
from tests.servers.server import Server
from tests.support.desk import Desk, new
from tests.work.conftest import Lane

AWKWARD = ("enable_hashjoin", "enable_mergejoin", "enable_material")


@pytest.fixture(params=["sql", "index"])
def lane(request: pytest.FixtureRequest, postgres: PostgresServer, redis86: Server) -> Lane:
    """A database that joins by nested loops only."""
    name = f"plans{uuid.uuid4().hex[:8]}"
    postgres.create(name)
    with psycopg.connect(postgres.url("x", name).replace("+x", ""), autocommit=True) as connection:
        for setting in AWKWARD:
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = off").format(sql.Identifier(name), sql.Identifier(setting))
            )
    return Lane(postgres.url("x", name).replace("+x", ""), redis86, request.param)


async def twelve_pending(desk: Desk) -> None:
    """The planner still believes that there is one: then it looks for the rows to take once for every row of the table."""
    queue = await desk.queue()
    await desk.ids(new(0))
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(text("ANALYZE relevo_store_messages"))
    await desk.ids(*(new(n) for n in range(1, 12)))
    await desk.work_queues.ready_index.rebuild(queue.id)


async def test_one_claim_takes_no_more_than_was_asked(desk: Desk) -> None:
    await twelve_pending(desk)
    assert len(await desk.claim(3)) == 3
    assert await desk.states() == {"pending": 9, "claimed": 3}
    assert await desk.depth() == Depth(pending=9, claimed=3)


async def test_claims_that_share_a_transaction_take_no_more_than_was_asked(desk: Desk) -> None:
    await twelve_pending(desk)
    found = await asyncio.gather(desk.claim(3), desk.claim(2), desk.claim(1))
    assert [len(each) for each in found] == [3, 2, 1]
    assert await desk.states() == {"pending": 6, "claimed": 6}
    assert await desk.depth() == Depth(pending=6, claimed=6)
