"""A PostgreSQL whose text is ordered as a language orders it, as most installations are. That of the tests is Estonian, where Z
comes before T: ids, which hold both, are ordered by their bytes all the same."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from relevo.work.reading.message_filter import MessageFilter
from tests.servers.stores import store_url
from tests.support.desk import SCOPE, Desk, new
from tests.work.conftest import Lane

_LETTER_MS = 1 << 20
"""For so long all ids have the same letter in their sixth place, a quarter of an hour; then the next of the alphabet."""
_T, _Z = 26 * _LETTER_MS, 31 * _LETTER_MS


@pytest.fixture
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Lane:
    url = store_url(request, "postgres", tmp_path)
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT datlocprovider, 'Z' < 'T' FROM pg_database WHERE datname = current_database()")
        assert row.fetchone() == ("i", True)
    return Lane(url, None, "sql")


async def _in_turn(desk: Desk, *letters: int, **fields: Any) -> list[str]:
    """The ids of messages that are published when ids have these letters."""
    begin = (desk.clock() // (32 * _LETTER_MS) + 1) * 32 * _LETTER_MS
    ids: list[str] = []
    for letter in letters:
        desk.clock.ahead_ms += begin + letter - desk.clock()
        ids += await desk.ids(new(letter, **fields))
    assert [each[5] for each in ids] == ["TZ"[letter == _Z] for letter in letters]
    return ids


async def test_the_message_that_came_first_is_claimed_first(desk: Desk) -> None:
    await desk.queue(ordering="priority")
    ids = await _in_turn(desk, _T, _Z)
    assert [each.id for _ in ids for each in await desk.claim()] == ids


async def test_a_search_by_time_finds_all_of_that_time(desk: Desk) -> None:
    await desk.queue()
    ids = await _in_turn(desk, _T, _Z)
    between = desk.clock() - _LETTER_MS
    assert [each.id for each in await desk.all(until=between)] == ids[:1]
    assert [each.id for each in await desk.all(since=between)] == ids[1:]


async def test_a_search_by_type_lists_page_by_page_before_and_after_its_table_knows(desk: Desk) -> None:
    await desk.queue()
    ids = await _in_turn(desk, _T, _Z, message_type="invoice")
    for known in (False, True):
        if known:
            await desk.index()
        found: list[str] = []
        cursor: str | None = None
        while len(found) < 2:
            wanted = MessageFilter(message_type="invoice")
            page = await desk.work_queues.search.list(desk.caller, SCOPE, wanted, limit=1, cursor=cursor)
            found += [each.id for each in page.items]
            cursor = page.next_cursor
        assert (found, cursor) == (ids[::-1], None)


async def test_all_messages_are_listed_page_by_page(desk: Desk) -> None:
    await desk.queue()
    ids = [*await _in_turn(desk, _T, _Z), *(await desk.ids(*(new(n) for n in range(3))))]
    found: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        page = await desk.work_queues.search.list(desk.caller, SCOPE, MessageFilter(), limit=2, cursor=cursor)
        found += [each.id for each in page.items]
        cursor = page.next_cursor
    assert found == ids[::-1]
    assert cursor is None


async def test_messages_are_claimed_by_labels_in_another_language_and_completed(desk: Desk) -> None:
    await desk.queue(ordering="priority")
    ids = await desk.ids(*(new(n, labels={"Ä": "ä"}, idempotency_key=f"K-{n}") for n in range(5)))
    assert [each.id for each in await desk.claim(2, labels={"Ä": "ä"})] == ids[:2]
    claimed = await desk.claim(5)
    assert [each.id for each in claimed] == ids[2:]
    assert {each.state for each in await desk.settle("complete", claimed)} == {"completed"}
