"""The same call through either library leaves the same bytes in Redis."""

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgpack
import pytest

from relevo.wire.keys import REGISTRY, QueueKeys
from tests.interop.conftest import Until
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop

AT = datetime.now(UTC).replace(microsecond=123_000) + timedelta(hours=5)

ADDS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "plain": (("send", {"to": "ada", "n": [1, 2.5, None, True, b"\x00\xff"]}), {}),
    "no name": (("", 1), {}),
    "unicode": (("días/🏃", "ñ"), {}),
    "long name": (("n" * 256, 1), {}),
    "tuple": (("send", (1, (2, 3))), {}),
    "long text": (("send", "x" * 70_000), {}),
    "numbers": (("send", [0, 127, 128, 255, 256, 65_536, 2**32, 2**64 - 1, -1, -32, -33, -(2**63), 1.5]), {}),
    "by id": (("send", 1), {"job_id": "chosen"}),
    "by long id": (("send", 1), {"job_id": "i" * 300}),
    "by unicode id": (("send", 1), {"job_id": "ñ:🏃"}),
    "attempts": (("send", 1), {"attempts": 300}),
    "backoff in ms": (("send", 1), {"backoff": 250}),
    "backoff dict": (("send", 1), {"backoff": {"kind": "fixed", "delay_ms": 5, "jitter_ms": 0}}),
    "backoff long": (("send", 1), {"backoff": 2**40}),
    "both": (("send", 1), {"attempts": 3, "backoff": 70_000}),
}
SPECS: dict[str, Callable[[Any], Any]] = {
    "fixed": lambda spec: spec.fixed(100),
    "fixed with jitter": lambda spec: spec.fixed(100, 20),
    "exponential": lambda spec: spec.exponential(100),
    "exponential in full": lambda spec: spec.exponential(100, multiplier=1.5, max_ms=10_000, jitter_ms=3),
    "by hand": lambda spec: spec("exponential", 100, 200, 3, 4),
}
ULID = re.compile(rb"[0-9A-HJKMNP-TV-Z]{26}")


def blank(envelope: bytes) -> bytes:
    """An envelope with its two varying parts blanked out: a minted id, and the time it was made."""
    job_id, payload, created_at, *_ = msgpack.unpackb(envelope)
    head = envelope[:1] + (b"<ulid>" if ULID.fullmatch(job_id.encode()) else msgpack.packb(job_id))
    at = 1 + len(msgpack.packb(job_id))
    body = msgpack.packb(payload)
    stamp = msgpack.packb(created_at)
    assert envelope[at:].startswith(body + stamp), "neither library orders its fields like this"
    return head + body + b"<created>" + envelope[at + len(body) + len(stamp) :]


def blank_member(member: bytes) -> bytes:
    size = 4 + int.from_bytes(member[:4], "little")
    return member[:size] + blank(member[size:])


async def in_both(
    theirs: Side, ours: Side, redis86: Server, act: Callable[[Side], Any], look: Callable[[], Any]
) -> None:
    """Acts and looks through each side on the same, then emptied, queue; what is seen must be the same."""
    seen: list[Any] = []
    for side in (theirs, ours):
        await act(side)
        seen.append(look())
        await side.close()
        redis86.call("FLUSHDB")
    assert seen[0] == seen[1]
    assert seen[0], "nothing was seen"


@pytest.mark.parametrize("call", ADDS)
async def test_an_added_job(theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, call: str) -> None:
    arguments, options = ADDS[call]

    def stream() -> list[list[bytes]]:
        found = [fields for _, fields in redis86.call("XRANGE", keys.stream, "-", "+")]
        return [[fields[0], blank(fields[1]), *fields[2:]] for fields in found]

    await in_both(theirs, ours, redis86, lambda side: side.queue().add(*arguments, **options), stream)


@pytest.mark.parametrize("spec", SPECS)
async def test_a_job_with_a_backoff_spec(theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, spec: str) -> None:
    async def act(side: Side) -> None:
        await side.queue().add("send", 1, attempts=3, backoff=SPECS[spec](side.module.BackoffSpec))

    def stream() -> list[bytes]:
        return [blank(fields[1]) for _, fields in redis86.call("XRANGE", keys.stream, "-", "+")]

    await in_both(theirs, ours, redis86, act, stream)


async def test_a_bulk(theirs: Side, ours: Side, keys: QueueKeys, redis86: Server) -> None:
    jobs = [{"name": "n" * (i % 3), "data": {"i": i}} for i in range(50)]

    def stream() -> list[list[bytes]]:
        found = [fields for _, fields in redis86.call("XRANGE", keys.stream, "-", "+")]
        return [[fields[0], blank(fields[1]), *fields[2:]] for fields in found]

    await in_both(theirs, ours, redis86, lambda side: side.queue().add_bulk(jobs), stream)


@pytest.mark.parametrize("call", [call for call in ADDS if call != "long text"])
async def test_a_delayed_job(theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, call: str) -> None:
    arguments, options = ADDS[call]

    def delayed() -> list[bytes]:
        member, score = redis86.call("ZRANGE", keys.delayed, 0, -1, "WITHSCORES")
        return [blank_member(member), score]

    await in_both(theirs, ours, redis86, lambda side: side.queue().add(*arguments, delay_ms=AT, **options), delayed)


@pytest.mark.parametrize("delay_ms", [1, 999, 1500, 60_000.9, 3_600_000])
async def test_the_keys_of_a_delayed_id_and_how_long_they_live(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, delay_ms: float
) -> None:
    async def act(side: Side) -> None:
        await side.queue().add_unique("later", 1, job_id="x", delay_ms=delay_ms)

    def marks() -> list[Any]:
        (member,) = redis86.call("ZRANGE", keys.delayed, 0, -1)
        assert redis86.call("GET", keys.member_of("x")) == member
        # TTL rounds to the nearest second, and both keys were set a moment ago.
        ttls = [redis86.call("TTL", key) for key in (keys.once("x"), keys.member_of("x"))]
        return [redis86.call("GET", keys.once("x")), ttls, sorted({*redis86.call("KEYS", "*")} - {REGISTRY})]

    await in_both(theirs, ours, redis86, act, marks)


async def test_a_retry_waiting_for_its_time(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    async def act(side: Side) -> None:
        await side.queue().add("flaky", {"x": 1}, job_id="x", attempts=3, backoff=60_000)
        async with side.worker(Runs(fail=lambda _: ValueError("no")), delayed_enabled=False):
            await until(lambda: redis86.call("ZCARD", keys.delayed) == 1)

    def delayed() -> list[bytes]:
        return [blank_member(member) for member in redis86.call("ZRANGE", keys.delayed, 0, -1)]

    await in_both(theirs, ours, redis86, act, delayed)


async def test_a_job_promoted_into_the_stream(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    seen: list[list[bytes]] = []

    async def act(side: Side) -> None:
        release = asyncio.Event()
        await side.queue().add("later", {"x": 1}, job_id="x", delay_ms=5, attempts=2)
        async with side.worker(lambda _: release.wait()):
            await until(lambda: redis86.call("XLEN", keys.stream) == 1)
            ((_, fields),) = redis86.call("XRANGE", keys.stream, "-", "+")
            seen.append([fields[0], blank(fields[1]), *fields[2:]])
            await until(lambda: redis86.call("EXISTS", keys.member_of("x")) == 0)
            release.set()

    await in_both(theirs, ours, redis86, act, lambda: [seen[-1], redis86.call("GET", keys.once("x"))])


@pytest.mark.parametrize("name", ["doomed", ""])
@pytest.mark.parametrize("reason", ["retries_exhausted", "unrecoverable"])
async def test_a_dead_letter(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until, reason: str, name: str
) -> None:
    async def act(side: Side) -> None:
        error = ValueError("no") if reason == "retries_exhausted" else side.module.UnrecoverableError("no")
        await side.queue().add(name, {"x": 1}, job_id="x", attempts=2, backoff=1)
        async with side.worker(Runs(fail=lambda _: error)):
            await until(lambda: redis86.call("XLEN", keys.dead) == 1)

    def dead() -> list[bytes]:
        ((_, fields),) = redis86.call("XRANGE", keys.dead, "-", "+")
        at = fields.index(b"source_id")
        assert re.fullmatch(rb"\d+-\d+", fields[at + 1])
        fields[at + 1] = b"<entry>"
        if (
            b"detail" in fields
        ):  # ours tells the error as well, in the place the wire has for it, and behind it how it came
            at = fields.index(b"detail")
            assert fields[at + 1].endswith(b"Error: no")
            assert fields[at + 2 : at + 5] == [
                b"attempts",
                b"2" if reason == "retries_exhausted" else b"1",
                b"traceback",
            ]
            fields = fields[:at]
        return [fields[0], blank(fields[1]), *fields[2:]]

    await in_both(theirs, ours, redis86, act, dead)


async def test_a_dead_letter_of_something_too_large(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    async def act(side: Side) -> None:
        redis86.call("XADD", keys.stream, "1-1", "d", b"x" * 3000, "n", "large")
        async with side.worker(Runs(), max_payload_bytes=2000):
            await until(lambda: redis86.call("XLEN", keys.dead) == 1)

    def dead() -> list[bytes]:
        ((_, fields),) = redis86.call("XRANGE", keys.dead, "-", "+")
        return fields[:8]

    await in_both(theirs, ours, redis86, act, dead)


async def test_a_replayed_job(theirs: Side, ours: Side, keys: QueueKeys, redis86: Server) -> None:
    envelope = msgpack.packb(["x", b"\x01", 1_700_000_000_000, 7, [3, ["fixed", 5, None, None, None]]])

    async def act(side: Side) -> None:
        redis86.call("XADD", keys.dead, "1-1", "d", envelope, "n", "doomed", "source_id", "1-0", "reason", "stalled")
        redis86.call("XADD", keys.dead, "1-2", "d", envelope, "source_id", "1-0", "reason", "unrecoverable")
        assert await side.queue().replay_dlq() == 2

    def stream() -> list[list[bytes]]:
        return [fields for _, fields in redis86.call("XRANGE", keys.stream, "-", "+")]

    await in_both(theirs, ours, redis86, act, stream)


@pytest.mark.parametrize("value", [0, "", "done", {"a": [1, None]}, b"\xff"])
async def test_a_stored_result_and_how_long_it_lives(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until, value: Any
) -> None:
    async def act(side: Side) -> None:
        await side.queue().add("answer", 1, job_id="x")
        async with side.worker(Runs(lambda _: value), store_results=True, result_ttl_ms=90_500):
            await until(lambda: redis86.call("EXISTS", keys.result("x")))

    def result() -> list[Any]:
        assert 89 <= redis86.call("TTL", keys.result("x")) <= 91
        return [redis86.call("GET", keys.result("x"))]

    await in_both(theirs, ours, redis86, act, result)


async def test_the_events_of_a_jobs_life(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    """Each event's fields, in their order on the wire, but for what differs by design (see wire.md, defect 14)."""

    async def act(side: Side) -> None:
        jobs: dict[str, Exception | None] = {
            "good": None,
            "bad": ValueError("no ñ"),
            "": side.module.UnrecoverableError("never"),
        }
        spec = side.module.BackoffSpec.fixed(1, jitter_ms=0)
        await side.queue().add_bulk(
            [{"name": name, "data": 1, "job_id": f"id-{name}", "attempts": 2, "backoff": spec} for name in jobs]
        )

        async with side.worker(Runs(fail=lambda job: jobs[job.name])):
            await until(lambda: redis86.call("XLEN", keys.dead) == 2)
            await until(lambda: len(events()) >= 11)

    def events() -> list[list[bytes]]:
        found: list[list[bytes]] = []
        for _, fields in redis86.call("XRANGE", keys.events, "-", "+"):
            if fields[1] in (b"drained", b"waiting"):  # how often a queue drains depends on the run
                continue
            if b"reason" in fields:  # ours names the type of the error too
                at = fields.index(b"reason") + 1
                fields[at] = re.sub(rb"^[\w.]+Error: ", b"", fields[at])
            for varying in (b"ts", b"duration_us"):
                if varying in fields:
                    fields[fields.index(varying) + 1] = b"<%b>" % varying
            found.append(fields)
        return sorted(found)

    await in_both(theirs, ours, redis86, act, events)


async def test_a_drained_queues_event(theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until) -> None:
    async def act(side: Side) -> None:
        await side.queue().add("only", 1)
        async with side.worker(Runs()):
            await until(lambda: b"drained" in str(redis86.call("XRANGE", keys.events, "-", "+")).encode())

    def drained() -> list[bytes]:
        found = [fields for _, fields in redis86.call("XRANGE", keys.events, "-", "+") if fields[1] == b"drained"]
        return found[0][:5]

    await in_both(theirs, ours, redis86, act, drained)


async def test_a_finished_queue_keeps_the_same_lasting_keys(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    async def act(side: Side) -> None:
        runs = Runs()
        async with side.worker(runs):
            await side.queue().add("now", 1)
            await side.queue().add("later", 1, delay_ms=5)
            await runs.until(2)
            await until(lambda: redis86.call("XLEN", keys.stream) == 0)

    await in_both(theirs, ours, redis86, act, lambda: sorted({*redis86.keys_without_ttl()} - {REGISTRY}))


async def test_the_group_and_the_consumers_name(side: Side, keys: QueueKeys, redis86: Server, until: Until) -> None:
    async with side.worker(Runs()):
        await until(lambda: redis86.call("EXISTS", keys.stream) and redis86.call("XINFO", "GROUPS", keys.stream))
        await until(lambda: redis86.call("XINFO", "CONSUMERS", keys.stream, "default"))
        (consumer,) = redis86.call("XINFO", "CONSUMERS", keys.stream, "default")
        assert re.fullmatch(rb"c-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", consumer[1])
        await until(lambda: redis86.call("GET", keys.promoter_lock) == consumer[1])
        assert 1 <= redis86.call("TTL", keys.promoter_lock) <= 5
