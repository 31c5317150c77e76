"""Dead letters: looked at, sent back once, thrown away, and never in each other's way."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from relevo import Queue, UnrecoverableError
from relevo.wire.dead import DeadLetterFields
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.retry import Backoff, RetryOverride
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.servers.server import Client
from tests.support.runs import Runs

POISON = b"\xc1 no envelope"


async def bury(raw: Client, keys: QueueKeys, *letters: DeadLetterFields) -> list[str]:
    """Writes dead letters as a worker does; returns their ids."""
    ids: list[str] = []
    for letter in letters:
        flat = letter.encode()
        entry: bytes = await raw.xadd(keys.dead, dict(zip(flat[::2], flat[1::2], strict=True)))
        ids.append(entry.decode())
    return ids


def letter_of(job_id: str, *, name: str = "send", reason: str = "retries_exhausted") -> DeadLetterFields:
    return DeadLetterFields(Envelope(job_id, b"\x01", 5, 3).encode(), name, "1-1", reason, "the reason")


async def stored(raw: Client, keys: QueueKeys) -> list[Envelope]:
    return [Envelope.decode(fields[b"d"]) for _, fields in await raw.xrange(keys.stream)]


async def test_a_dead_job_can_be_looked_at(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(fail=lambda _: UnrecoverableError("no such address"))
    async with worker_of(runs) as worker:
        job = await queue.add("send", {"to": "ada"})
        await worker.until(dead=1)
    (letter,) = await queue.peek_dlq()
    assert (letter["reason"], letter["detail"], letter["name"]) == (
        "unrecoverable",
        "relevo.errors.UnrecoverableError: no such address",
        "send",
    )
    assert Envelope.decode(letter["payload"]).id == job.id
    assert letter["source_id"].count("-") == letter["dlq_id"].count("-") == 1


async def test_the_oldest_are_shown_first_and_no_more_than_asked_for(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    ids = await bury(raw, keys, *(letter_of(f"j{number}") for number in range(5)))
    assert [letter["dlq_id"] for letter in await queue.peek_dlq(3)] == ids[:3]
    assert [letter["dlq_id"] for letter in await queue.peek_dlq()] == ids


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_of_nothing_touches_nothing(queue: Queue, keys: QueueKeys, raw: Client, limit: int) -> None:
    await bury(raw, keys, letter_of("a"))
    assert await queue.peek_dlq(limit) == []
    assert await queue.replay_dlq(limit) == 0
    assert await queue.purge_dlq(limit) == 0
    assert await raw.xlen(keys.dead) == 1


async def test_a_queue_without_dead_letters_shows_none(queue: Queue) -> None:
    assert await queue.peek_dlq() == []
    assert await queue.replay_dlq() == 0
    assert await queue.purge_dlq() == 0


async def test_looking_changes_nothing(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await bury(raw, keys, letter_of("a"))
    assert await queue.peek_dlq() == await queue.peek_dlq()
    assert await raw.xlen(keys.dead) == 1


# --- sending back ----------------------------------------------------------------------------------------------------


async def test_a_replayed_job_runs_again_with_a_fresh_budget(queue: Queue, worker_of: WorkerOf) -> None:
    failures = [RuntimeError("broken")]
    runs = Runs(fail=lambda _: failures.pop() if failures else None)
    async with worker_of(runs, max_attempts=1) as worker:
        job = await queue.add("send", {"to": "ada"})
        await worker.until(dead=1)
        assert await queue.replay_dlq() == 1
        await worker.until(done=1)
    assert [(run.id, run.attempt, run.data) for run in runs.jobs] == [(job.id, 0, {"to": "ada"})] * 2
    assert await queue.peek_dlq() == []


async def test_replay_keeps_id_name_time_and_retry_and_starts_the_attempts_anew(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    retry = RetryOverride(7, Backoff("fixed", 250))
    envelope = Envelope("own", b"\x01", 1_700_000_000_000, 6, retry)
    await bury(raw, keys, DeadLetterFields(envelope.encode(), "send", "1-1", "retries_exhausted", ""))
    await queue.replay_dlq()
    ((_, fields),) = await raw.xrange(keys.stream)
    assert Envelope.decode(fields[b"d"]) == Envelope("own", b"\x01", 1_700_000_000_000, 0, retry)
    assert fields[b"n"] == b"send"


async def test_a_nameless_job_stays_nameless(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await bury(raw, keys, letter_of("a", name=""))
    await queue.replay_dlq()
    ((_, fields),) = await raw.xrange(keys.stream)
    assert list(fields) == [b"d"]


async def test_replay_stops_at_its_limit_and_begins_with_the_oldest(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await bury(raw, keys, *(letter_of(f"j{number}") for number in range(5)))
    assert await queue.replay_dlq(2) == 2
    assert [envelope.id for envelope in await stored(raw, keys)] == ["j0", "j1"]
    assert await raw.xlen(keys.dead) == 3


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"a", "b", "c"}),
    ({"reasons": ["stalled"]}, {"b"}),
    ({"reasons": {"stalled", "unrecoverable"}}, {"b", "c"}),
    ({"names": ["send"]}, {"a", "b"}),
    ({"names": ["send"], "reasons": ["stalled"]}, {"b"}),
    ({"job_ids": ["a", "c", "nobody"]}, {"a", "c"}),
    ({"job_ids": ["nobody"]}, set()),
    ({"since_ms": 2}, {"b", "c"}),
    ({"until_ms": 2}, {"a"}),
    ({"since_ms": 2, "until_ms": 3}, {"b"}),
]


async def bury_three(raw: Client, keys: QueueKeys) -> None:
    for at, (job_id, name, reason) in enumerate(
        [("a", "send", "retries_exhausted"), ("b", "send", "stalled"), ("c", "charge", "unrecoverable")], start=1
    ):
        flat = letter_of(job_id, name=name, reason=reason).encode()
        await raw.xadd(keys.dead, dict(zip(flat[::2], flat[1::2], strict=True)), id=f"{at}-0")


@pytest.mark.parametrize(("wanted", "found"), FILTERS, ids=range(len(FILTERS)))
async def test_replay_sends_back_what_is_meant(
    queue: Queue, keys: QueueKeys, raw: Client, wanted: dict[str, Any], found: set[str]
) -> None:
    await bury_three(raw, keys)
    assert await queue.replay_dlq(**wanted) == len(found)
    assert {envelope.id for envelope in await stored(raw, keys)} == found
    assert await raw.xlen(keys.dead) == 3 - len(found)


@pytest.mark.parametrize(("wanted", "found"), FILTERS, ids=range(len(FILTERS)))
async def test_purge_deletes_what_is_meant(
    queue: Queue, keys: QueueKeys, raw: Client, wanted: dict[str, Any], found: set[str]
) -> None:
    await bury_three(raw, keys)
    assert await queue.purge_dlq(**wanted) == len(found)
    left = {Envelope.decode(letter["payload"]).id for letter in await queue.peek_dlq()}
    assert left == {"a", "b", "c"} - found
    assert await raw.exists(keys.stream) == 0


async def test_purge_stops_at_its_limit(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    ids = await bury(raw, keys, *(letter_of(f"j{number}") for number in range(5)))
    assert await queue.purge_dlq(2) == 2
    assert [letter["dlq_id"] for letter in await queue.peek_dlq()] == ids[2:]


async def test_letters_that_cannot_be_sent_back_do_not_hide_those_behind_them(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    poison = DeadLetterFields(POISON, "", "1-1", "decode_failed", "")
    await bury(raw, keys, *([poison] * 230), letter_of("good"))
    assert await queue.replay_dlq(1) == 1
    assert [envelope.id for envelope in await stored(raw, keys)] == ["good"]
    assert await raw.xlen(keys.dead) == 230


async def test_replays_at_once_send_each_letter_back_once(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    await bury(raw, keys, *(letter_of(f"j{number}") for number in range(50)))
    moved = await asyncio.gather(*(queue_of().replay_dlq() for _ in range(4)))
    assert sum(moved) == 50
    ids = Counter(envelope.id for envelope in await stored(raw, keys))
    assert ids == {f"j{number}": 1 for number in range(50)}
    assert await raw.xlen(keys.dead) == 0


async def test_replay_into_a_full_queue_stops_and_loses_nothing(
    queue_of: QueueOf, keys: QueueKeys, raw: Client
) -> None:
    queue = queue_of(max_stream_len=10)
    await queue.add_bulk([{"name": "job", "data": number} for number in range(4)])
    await bury(raw, keys, *(letter_of(f"j{number}") for number in range(25)))
    assert await queue.replay_dlq() == 6
    assert await queue.replay_dlq() == 0
    assert (await raw.xlen(keys.stream), await raw.xlen(keys.dead)) == (10, 19)


async def test_progress_is_told_as_it_goes(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await bury(raw, keys, *(letter_of(f"j{number}") for number in range(450)))
    replayed, purged = list[int](), list[int]()
    await queue.replay_dlq(250, progress=replayed.append)
    await queue.purge_dlq(progress=purged.append)
    assert (replayed, purged) == ([200, 250], [200])


async def test_a_dead_letter_of_any_shape_can_be_shown_and_purged(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await raw.xadd(keys.dead, {b"\xff": b"\xfe"})
    await raw.xadd(keys.dead, {b"d": b"", b"n": b"\xff", b"reason": b"\xfe", b"source_id": b"\x00"})
    assert [letter["payload"] for letter in await queue.peek_dlq()] == [b"", b""]
    assert await queue.replay_dlq() == 0
    assert await queue.purge_dlq() == 2
