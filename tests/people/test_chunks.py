"""Parts of a result: sent in order by the claim's holder, read as they come, and made one when the last has come."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import select

from relevo.agents.message_archiver import MessageArchiver
from relevo.contract.chunks import Chunk, Chunks
from relevo.contract.claims import Claimed
from relevo.errors import BodyTooLarge, ChunkConflict, ClaimLost, InvalidInput, NotFound, WrongConsumerMode
from relevo.work.store.tables import chunks
from tests.pace import limit
from tests.servers.stores import STORES
from tests.support.desk import SCOPE, Desk

pytestmark = pytest.mark.parametrize("store", STORES)


async def one(desk: Desk) -> Claimed:
    await desk.publish()
    (claimed,) = await desk.claim()
    return claimed


async def part(desk: Desk, claimed: Claimed, body: Any, **how: Any) -> Chunk:
    raw = msgspec.Raw(msgspec.json.encode(body))
    return await desk.work_queues.chunk_streams.append(desk.caller, SCOPE, claimed.id, claimed.claim_token, raw, **how)


async def read(desk: Desk, message_id: str, **how: Any) -> Chunks:
    return await desk.work_queues.chunk_streams.read(desk.caller, SCOPE, message_id, **how)


async def result(desk: Desk, message_id: str) -> Any:
    text = (await desk.row(message_id))["result"]
    return None if text is None else msgspec.json.decode(text)


def numbers(found: Chunks) -> list[int]:
    return [each.number for each in found.chunks]


async def test_texts_become_one_text_when_the_message_is_completed(desk: Desk) -> None:
    claimed = await one(desk)
    for text in ("Once ", "upon ", "a tïme"):
        await part(desk, claimed, text)
    await part(desk, claimed, ".", final=True)
    await desk.settle("complete", [claimed])
    assert await result(desk, claimed.id) == "Once upon a tïme."


async def test_parts_of_other_kinds_become_a_list(desk: Desk) -> None:
    claimed = await one(desk)
    await part(desk, claimed, {"n": 1})
    await part(desk, claimed, "two", final=True)
    await desk.settle("complete", [claimed])
    assert await result(desk, claimed.id) == [{"n": 1}, "two"]


async def test_a_result_of_its_own_goes_before_the_parts(desk: Desk) -> None:
    claimed = await one(desk)
    await part(desk, claimed, "draft", final=True)
    await desk.settle("complete", [claimed], result=msgspec.Raw(b'"fair copy"'))
    assert await result(desk, claimed.id) == "fair copy"


async def test_without_a_final_part_there_is_no_whole(desk: Desk) -> None:
    claimed = await one(desk)
    await part(desk, claimed, "half")
    await desk.settle("complete", [claimed])
    assert await result(desk, claimed.id) is None


async def test_who_claims_anew_begins_anew_and_never_gets_the_others_whole(desk: Desk) -> None:
    first = await one(desk)
    await part(desk, first, "of the first", final=True)
    before = await read(desk, first.id)
    await desk.settle("release", [first])
    (second,) = await desk.claim()
    with pytest.raises(ClaimLost):
        await part(desk, first, "too late")
    await desk.settle("complete", [second])
    assert await result(desk, first.id) is None
    assert before.complete


async def test_a_reader_is_told_that_the_parts_it_has_are_void(desk: Desk) -> None:
    first = await one(desk)
    await part(desk, first, "a")
    await part(desk, first, "b")
    seen = await read(desk, first.id)
    await desk.settle("release", [first])
    (second,) = await desk.claim()
    await part(desk, second, "A")
    again = await read(desk, first.id, after=2, stream=seen.stream)
    assert again.stream != seen.stream
    assert [bytes(each.body) for each in again.chunks] == [b'"A"']


async def test_the_same_part_sent_again_is_fine_and_another_body_is_a_conflict(desk: Desk) -> None:
    claimed = await one(desk)
    made = await part(desk, claimed, "a", number=1)
    assert await part(desk, claimed, "a", number=1) == made
    with pytest.raises(ChunkConflict, match="another body"):
        await part(desk, claimed, "b", number=1)
    assert numbers(await read(desk, claimed.id)) == [1]


async def test_a_gap_is_refused_and_nothing_follows_the_final_part(desk: Desk) -> None:
    claimed = await one(desk)
    with pytest.raises(InvalidInput, match="the next part is 1"):
        await part(desk, claimed, "b", number=2)
    await part(desk, claimed, "a", final=True)
    with pytest.raises(ChunkConflict, match="final"):
        await part(desk, claimed, "b")


async def test_many_who_append_at_once_leave_no_gap(desk: Desk) -> None:
    claimed = await one(desk)
    made = await asyncio.gather(*(part(desk, claimed, n) for n in range(8)))
    assert sorted(each.number for each in made) == list(range(1, 9))


async def test_a_reader_that_waits_is_woken_by_the_next_part(desk: Desk) -> None:
    claimed = await one(desk)
    await part(desk, claimed, "a")
    waiting = asyncio.ensure_future(read(desk, claimed.id, after=1, wait_s=30))
    await desk.work_queues.long_poll.begun.wait_for(timeout=limit(30))
    await part(desk, claimed, "b", final=True)
    found = await waiting
    assert numbers(found) == [2]
    assert found.complete


async def test_a_reader_waits_no_longer_than_it_said(desk: Desk) -> None:
    claimed = await one(desk)
    assert (await read(desk, claimed.id, wait_s=0.1)).chunks == []


async def test_a_reader_of_a_finished_message_does_not_wait(desk: Desk) -> None:
    claimed = await one(desk)
    await desk.settle("complete", [claimed])
    found = await asyncio.wait_for(read(desk, claimed.id, wait_s=30), limit(10))
    assert (found.state, found.chunks) == ("completed", [])


async def test_parts_are_read_in_pages_in_order(desk: Desk) -> None:
    claimed = await one(desk)
    for n in range(5):
        await part(desk, claimed, n)
    assert numbers(await read(desk, claimed.id, limit=2)) == [1, 2]
    assert numbers(await read(desk, claimed.id, after=2, limit=2)) == [3, 4]


async def test_the_whole_is_no_larger_than_a_body_may_be(desk: Desk) -> None:
    claimed = await one(desk)
    await part(desk, claimed, "x" * 600_000)
    with pytest.raises(BodyTooLarge):
        await part(desk, claimed, "x" * 600_000)


async def test_parts_of_broadcast_messages_are_refused(desk: Desk) -> None:
    await desk.queue("news", consumer_mode="broadcast")
    await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", "reader")
    await desk.publish(queue="news")
    (claimed,) = await desk.claim(queue="news", subscription="reader")
    with pytest.raises(WrongConsumerMode):
        await part(desk, claimed, "a")


async def test_what_a_key_does_not_see_is_not_found(desk: Desk) -> None:
    claimed = await one(desk)
    blind = replace(desk.caller, actor="key:x", queues=frozenset({"other"}))
    with pytest.raises(NotFound):
        await desk.work_queues.chunk_streams.read(blind, SCOPE, claimed.id)
    with pytest.raises(NotFound):
        await desk.work_queues.chunk_streams.append(blind, SCOPE, claimed.id, claimed.claim_token, msgspec.Raw(b"1"))


async def test_parts_go_when_the_message_is_archived(desk: Desk) -> None:
    claimed = await one(desk)
    await part(desk, claimed, "a", final=True)
    await desk.settle("complete", [claimed])
    desk.clock.turn(minutes=61)
    await MessageArchiver(desk.work_queues).work()
    async with desk.work_queues.database.connect() as connection:
        assert (await connection.execute(select(chunks))).all() == []
    assert await result(desk, claimed.id) == "a"
