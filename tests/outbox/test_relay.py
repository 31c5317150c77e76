"""What relays promise: in order for each queue, at least once, deduplicated, however many of them and whatever fails."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, select, update
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session

from relevo import Queue
from relevo.errors import BadArgument, BadUrl, OutboxUnavailable
from relevo.outbox import Outbox, OutboxRelay, OutboxTable
from relevo.outbox.relay import RelayTick
from tests.conftest import Launch
from tests.outbox.conftest import RelayOf
from tests.outbox.database import Author, Database
from tests.pace import limit
from tests.servers.child import Child
from tests.servers.server import EmbeddedValkey, Server

DOOMED = Path(__file__).with_name("doomed.py")
_SYNC_DRIVERS = {
    "sqlite+aiosqlite": "sqlite",
    "postgresql+asyncpg": "postgresql+psycopg",
    "mysql+asyncmy": "mysql+pymysql",
}


async def add_numbers(database: Database, outbox: Author, queue_name: str, numbers: range) -> None:
    async with database.session() as session:
        for number in numbers:
            await outbox.add(session, queue_name, "n", number)


async def numbers_in(queue: Queue) -> list[int]:
    return [job.data for job in await queue.get_jobs("waiting", limit=10_000)]


# --- order and number ----------------------------------------------------------------------------------------------------


async def test_jobs_of_a_queue_keep_their_order_also_over_many_batches(
    database: Database, outbox: Author, relay_of: RelayOf, queue: Queue
) -> None:
    await add_numbers(database, outbox, queue.name, range(23))
    await relay_of(batch=5).drain()
    assert await numbers_in(queue) == list(range(23))


async def test_a_job_of_another_kind_keeps_its_place(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    async with database.session() as session:
        for number in range(9):
            lane = "tenant" if number % 3 == 1 else None
            await outbox.add(session, queue.name, "n", number, lane=lane)
    await relay.drain()
    assert await numbers_in(queue) == list(range(9))
    await queue.obliterate(force=True)


async def test_many_relays_at_once_send_each_job_once_and_in_order(
    database: Database, outbox: Author, relay_of: RelayOf, queue: Queue, server: Server
) -> None:
    async with Queue(f"{queue.name}-2", redis_url=server.url) as second:
        relays = [relay_of(batch=7, every=0.01) for _ in range(4)]
        for relay in relays:
            relay.start()
        for start in range(0, 100, 10):
            await add_numbers(database, outbox, queue.name, range(start, start + 10))
            await add_numbers(database, outbox, second.name, range(start, start + 10))
        while await relays[0].waiting():
            await relays[0].relayed.wait_for()
        assert await numbers_in(queue) == list(range(100))
        assert await numbers_in(second) == list(range(100))


async def test_a_relay_killed_between_the_send_and_its_note_does_not_double_the_jobs(
    database: Database, outbox: Author, relay_of: RelayOf, queue: Queue, server: Server
) -> None:
    await add_numbers(database, outbox, queue.name, range(10))
    driver, _, rest = database.url.partition("://")
    url = f"{_SYNC_DRIVERS.get(driver, driver)}://{rest}"
    doomed = (sys.executable, DOOMED, url, database.table.table.name, server.url)
    killed = await asyncio.to_thread(Child.run, *doomed)
    assert killed.code == -9, killed.err
    assert await numbers_in(queue) == list(range(10))
    assert len(await database.rows()) == 10
    relay = relay_of(every=0.05)
    relay.start()
    sent = list[int]()

    def all_sent(tick: RelayTick) -> bool:
        sent.append(tick.sent)
        return sum(sent) == 10

    await relay.relayed.wait_for(all_sent, timeout=limit(40))
    assert await numbers_in(queue) == list(range(10))
    assert await database.rows() == []


async def test_what_a_living_relay_holds_is_left_to_it(
    database: Database, outbox: Author, relay_of: RelayOf, queue: Queue
) -> None:
    await add_numbers(database, outbox, queue.name, range(3))
    store = relay_of().store
    due = await relay_of()._with_database(store.due)  # pyright: ignore[reportPrivateUsage]
    await relay_of()._with_database(lambda connection: store.hold(connection, due, "someone"))  # pyright: ignore[reportPrivateUsage]
    await add_numbers(database, outbox, queue.name, range(3, 5))
    assert await relay_of().drain() == 0, "rows behind a held head would overtake it"
    assert {row.held_by for row in await database.rows()} == {"someone", None}


# --- waking --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["session", "connection"])
async def test_a_commit_in_this_process_wakes_the_relay(
    database: Database, outbox: Author, relay_of: RelayOf, queue: Queue, place: str
) -> None:
    relay = relay_of(every=600)
    relay.start()
    await relay.relayed.wait_for()
    sent = asyncio.ensure_future(relay.relayed.wait_for(lambda tick: tick.sent == 1))
    async with (database.session if place == "session" else database.connection)() as chosen:
        await outbox.add(chosen, queue.name, "n", 1)
    await sent
    assert await numbers_in(queue) == [1]


async def test_a_commit_on_another_thread_wakes_the_relay(
    database: Database, outbox: Author, relay_of: RelayOf, queue: Queue
) -> None:
    driver, _, rest = database.url.partition("://")
    engine = create_engine(f"{_SYNC_DRIVERS.get(driver, driver)}://{rest}")
    relay = relay_of(every=600)
    relay.start()
    await relay.relayed.wait_for()
    sent = asyncio.ensure_future(relay.relayed.wait_for(lambda tick: tick.sent == 1))

    def work() -> None:
        with Session(engine) as session, session.begin():
            Outbox(database.table).add(session, queue.name, "n", threading.get_ident())

    await asyncio.to_thread(work)
    await sent
    engine.dispose()


async def test_a_commit_elsewhere_is_found_by_polling(database: Database, relay_of: RelayOf, queue: Queue) -> None:
    relay = relay_of(every=0.02)
    relay.start()
    elsewhere = Author(Outbox(OutboxTable(name=database.table.table.name)))
    await add_numbers(database, elsewhere, queue.name, range(2))
    await relay.relayed.wait_for(lambda tick: tick.sent == 2)


# --- failures --------------------------------------------------------------------------------------------------------------


async def test_a_row_that_is_no_job_is_set_aside_with_its_error_and_the_rest_goes_on(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    await add_numbers(database, outbox, queue.name, range(5))
    columns = database.table.table.c
    third = (await database.rows())[2].seq
    await database.execute(
        update(database.table.table).where(columns.seq == third).values(options='{"colour": "blue"}')
    )
    assert await relay.drain() == 4
    assert await numbers_in(queue) == [0, 1, 3, 4]
    (row,) = await database.rows()
    assert (row.set_aside, row.attempts, row.held_by) == (True, 1, None)
    assert "colour" in row.error


async def test_a_row_that_was_set_aside_is_sent_once_it_is_repaired(
    database: Database, outbox: Author, relay: OutboxRelay, queue: Queue
) -> None:
    await add_numbers(database, outbox, queue.name, range(1))
    table = database.table.table
    await database.execute(update(table).values(options="{"))
    assert await relay.drain() == 0
    assert await relay.drain() == 0, "it is not tried again at once"
    await database.execute(update(table).values(options=None, held_until_ms=0))
    assert await relay.drain() == 1
    assert await numbers_in(queue) == [0]


async def test_a_full_queue_gets_what_it_has_room_for_and_the_rest_waits_in_order(
    database: Database, outbox: Author, relay_of: RelayOf, queue: Queue
) -> None:
    await add_numbers(database, outbox, queue.name, range(10))
    relay = relay_of(max_stream_len=6)
    assert await relay.drain() == 6
    assert await numbers_in(queue) == list(range(6))
    first, *others = await database.rows()
    assert first.error.startswith("QueueFull")
    assert not first.set_aside
    assert {(row.attempts, row.error, row.held_by) for row in others} == {(0, None, None)}
    assert await relay.drain() == 0, "nothing overtakes the job that waits"
    await queue.drain()
    await database.execute(update(database.table.table).values(held_until_ms=0))
    assert await relay.drain() == 4
    assert await numbers_in(queue) == list(range(6, 10))


async def test_while_redis_is_away_rows_keep_their_error_and_are_sent_when_it_is_back(
    database: Database, outbox: Author, relay_of: RelayOf, queue_name: str, launch: Launch
) -> None:
    server = launch(EmbeddedValkey, appendonly=True)
    relay = relay_of(redis_url=server.url, every=0.05, hold_s=0.4)
    await add_numbers(database, outbox, queue_name, range(3))
    server.kill()
    relay.start()
    await relay.relayed.wait_for(lambda tick: tick.put_off == 1, timeout=limit(20))
    assert (await database.rows())[0].error.startswith("Unreachable")
    server.restart()
    await relay.relayed.wait_for(lambda tick: tick.sent == 3, timeout=limit(30))
    async with Queue(queue_name, redis_url=server.url) as queue:
        assert await numbers_in(queue) == [0, 1, 2]


async def test_a_missing_table_is_said_with_the_remedy(database: Database, server: Server) -> None:
    relay = OutboxRelay(database.engine, OutboxTable(name="nowhere"), redis_url=server.url)
    with pytest.raises(OutboxUnavailable, match=r"'nowhere' cannot be used: .*nowhere.*OutboxTable\.create"):
        await relay.drain()
    await relay.close()


@pytest.mark.parametrize(
    ("options", "error"),
    [({"redis_url": "http://x"}, BadUrl), ({"every": 0}, BadArgument), ({"hold_s": -1}, BadArgument)],
)
def test_bad_settings_are_told_when_the_relay_is_made(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        OutboxRelay(create_engine("sqlite://"), OutboxTable(), **options)


# --- life ------------------------------------------------------------------------------------------------------------------


async def test_a_relay_ends_when_its_task_is_cancelled_and_leaves_the_engine_usable(
    database: Database, relay: OutboxRelay
) -> None:
    looked = asyncio.ensure_future(relay.relayed.wait_for())
    running = asyncio.ensure_future(relay.run(handle_signals=False))
    await looked
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert isinstance(database.engine, Engine | AsyncEngine)
    assert list(await database.execute(select(1))) == [(1,)]
