"""The consumer loop: it settles, keeps its claims alive, and ends in order."""

import asyncio
import signal
import sys
from pathlib import Path

import httpx
import pytest

from relevo.client import AsyncClient, Claimed, Consumer, Fail, Release
from relevo.errors import NotFound
from tests.pace import limit
from tests.patience import forever
from tests.servers.child import Child
from tests.support.room import QUEUE, Room


class Seen:
    """Notes what a handler saw, and lets tests wait for it."""

    def __init__(self) -> None:
        self.messages: list[Claimed] = []
        self._changed = asyncio.Condition()

    async def note(self, message: Claimed) -> None:
        async with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    async def wait_for(self, count: int) -> None:
        async with self._changed, asyncio.timeout(limit(40)):
            await self._changed.wait_for(lambda: len(self.messages) >= count)


async def _end(consumer: Consumer, running: asyncio.Task[None]) -> None:
    consumer.stop()
    async with asyncio.timeout(limit(40)):
        await running


async def test_what_a_handler_returns_is_the_result_and_all_are_worked_on_once(client: AsyncClient) -> None:
    await client.publish_batch("billing", "invoices", [{"body": n} for n in range(50)])
    seen = Seen()

    async def double(message: Claimed) -> int:
        await seen.note(message)
        return message.body * 2

    consumer = Consumer(client, "billing", "invoices", double, concurrency=8)
    running = asyncio.create_task(consumer.run())
    await seen.wait_for(50)
    await _end(consumer, running)
    done = (await client.search("billing", state="completed")).items
    assert sorted(message.result for message in done) == [2 * n for n in range(50)]
    assert len(seen.messages) == consumer.settled == 50


async def test_a_handler_that_raises_fails_its_message_with_the_reason(client: AsyncClient) -> None:
    await client.change_queue("billing", "invoices", backoff_initial_s=60)
    for n in range(4):
        await client.publish("billing", "invoices", n)
    seen = Seen()

    async def pick(message: Claimed) -> object:
        await seen.note(message)
        if message.body == 0:
            raise ValueError("no good")
        if message.body == 1:
            raise Fail("never", dead=True)
        if message.body == 2 and message.attempts == 1 and len(seen.messages) <= 3:
            raise Release
        return object() if message.body == 3 else None

    consumer = Consumer(client, "billing", "invoices", pick, concurrency=1)
    running = asyncio.create_task(consumer.run())
    await seen.wait_for(5)
    await _end(consumer, running)
    states = {message.body: message for message in (await client.search("billing")).items}
    assert (states[0].state, states[0].failure_reason) == ("delayed", "ValueError: no good")
    assert (states[1].state, states[1].failure_reason) == ("dead", "never")
    assert (states[2].state, states[2].attempts) == ("completed", 1)
    assert states[3].state == "delayed"


async def test_a_failure_is_logged_and_kept_with_the_handlers_own_frames(
    client: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.change_queue("billing", "invoices", backoff_initial_s=60)
    for n in range(4):
        await client.publish("billing", "invoices", n)
    seen = Seen()

    def look_up(body: dict[str, str]) -> str:
        return body["email"]

    async def fail(message: Claimed) -> None:
        await seen.note(message)
        if message.body == 1:
            await asyncio.to_thread(look_up, {})
        if message.body == 2:
            raise Fail("no address") from OSError(2, "No such file")
        if message.body == 3:
            sys.exit(3)
        look_up({})

    consumer = Consumer(client, "billing", "invoices", fail, concurrency=1)
    with caplog.at_level("WARNING", "relevo.consumer"):
        running = asyncio.create_task(consumer.run())
        await seen.wait_for(4)
        await _end(consumer, running)
    shown = {
        message.body: await client.message("billing", message.id) for message in (await client.search("billing")).items
    }
    for n in (0, 1):
        error = shown[n].error
        assert error is not None
        assert error.stack is not None
        assert (shown[n].failure_reason, error.type, error.message) == ("KeyError: 'email'", "KeyError", "'email'")
        files = [line.split('"')[1] for line in error.stack.splitlines() if line.startswith("  File ")]
        assert files[0] == files[-1] == __file__, "begins and ends in the handler"
        assert not any("/relevo/client/" in file for file in files)
    assert shown[2].failure_reason == "no address (FileNotFoundError: [Errno 2] No such file)"
    assert shown[3].failure_reason == "the handler called sys.exit(3) (SystemExit: 3)"
    records = [record for record in caplog.records if "failed, attempt" in record.getMessage()]
    assert [record.levelname for record in records] == ["WARNING"] * 4
    assert "failed, attempt 1: KeyError: 'email'" in records[0].getMessage()
    assert records[0].exc_info is not None
    assert 'body["email"]' in caplog.text
    assert "relevo/client/consumer.py" not in caplog.text


async def test_a_result_that_is_no_json_says_so(client: AsyncClient) -> None:
    await client.publish("billing", "invoices", 1)
    seen = Seen()

    async def answer(message: Claimed) -> object:
        await seen.note(message)
        return object()

    consumer = Consumer(client, "billing", "invoices", answer)
    running = asyncio.create_task(consumer.run())
    await seen.wait_for(1)
    await _end(consumer, running)
    (message,) = (await client.search("billing")).items
    assert message.failure_reason is not None
    assert message.failure_reason.startswith("TypeError: the handler returned object, which cannot be sent as JSON: ")


class Extended(httpx.AsyncHTTPTransport):
    """The way to the server; `enough` is set when so many extensions were answered on it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = count
        self.enough = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if request.url.path.endswith("/extend") and response.is_success:
            self._left -= 1
            if self._left == 0:
                self.enough.set()
        return response


async def test_a_handler_longer_than_the_visibility_timeout_runs_once(room: Room) -> None:
    way = Extended(4)  # each after half of the claim's time: longer than the claim
    seen = Seen()

    async def slow(message: Claimed) -> None:
        await seen.note(message)
        async with asyncio.timeout(limit(40)):
            await way.enough.wait()

    async with AsyncClient(room.service.url, key=room.key, transport=way) as client:
        await client.change_queue("billing", "invoices", visibility_timeout_s=2)
        await client.publish("billing", "invoices", 1)
        consumer = Consumer(client, "billing", "invoices", slow, concurrency=2)
        running = asyncio.create_task(consumer.run())
        await seen.wait_for(1)
        await _end(consumer, running)
        (message,) = (await client.search("billing")).items
    assert (message.state, message.attempts, message.reclaims, len(seen.messages)) == ("completed", 1, 0, 1)


async def test_a_message_published_while_it_waits_arrives_at_once(client: AsyncClient) -> None:
    seen = Seen()
    consumer = Consumer(client, "billing", "invoices", seen.note, wait_s=30)
    running = asyncio.create_task(consumer.run())
    await client.publish("billing", "invoices", 1)
    await seen.wait_for(1)
    await _end(consumer, running)


async def test_a_claim_that_was_taken_over_cancels_its_handler_and_changes_nothing(client: AsyncClient) -> None:
    await client.change_queue("billing", "invoices", visibility_timeout_s=2)
    await client.publish("billing", "invoices", 1)
    seen, cancelled = Seen(), asyncio.Event()

    async def stuck(message: Claimed) -> None:
        await seen.note(message)
        try:
            await forever()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    consumer = Consumer(client, "billing", "invoices", stuck, concurrency=1)
    running = asyncio.create_task(consumer.run())
    await seen.wait_for(1)
    await client.release("billing", seen.messages[0])  # as if the claim had ended and somebody else had it
    (other,) = await client.claim("billing", "invoices", wait_s=5)
    async with asyncio.timeout(limit(30)):
        await cancelled.wait()
    consumer.stop()
    consumer.stop()
    async with asyncio.timeout(limit(40)):
        await running
    assert (await client.complete("billing", other, "theirs")).state == "completed"


async def test_a_second_stop_gives_messages_back(client: AsyncClient) -> None:
    published = await client.publish("billing", "invoices", 1)
    seen = Seen()

    async def stuck(message: Claimed) -> None:
        await seen.note(message)
        await forever()

    consumer = Consumer(client, "billing", "invoices", stuck)
    running = asyncio.create_task(consumer.run())
    await seen.wait_for(1)
    consumer.stop()
    await _end(consumer, running)
    message = await client.message("billing", published.id)
    assert (message.state, message.attempts) == ("pending", 0)


async def test_a_waiting_claim_of_a_worker_that_hung_up_takes_nothing(room: Room, client: AsyncClient) -> None:
    consumer = Consumer(client, "billing", "invoices", lambda _: None, wait_s=50)
    wakeups = room.work_queues.long_poll
    running = asyncio.create_task(consumer.run())
    await wakeups.begun.wait_for(timeout=limit(30))
    known = asyncio.ensure_future(wakeups.ended.wait_for(timeout=limit(30)))
    await _end(consumer, running)
    await known
    published = await room.publish()
    assert await room.state(published) == "pending"
    assert [each["id"] for each in await room.claim()] == [published]


async def test_a_queue_that_is_not_there_ends_the_consumer(client: AsyncClient) -> None:
    with pytest.raises(NotFound):
        await client.consume("billing", "nope", lambda _: None)


PROGRAM = """
import sys
from relevo.client import Client

def handle(message):
    print("begun", message.body, flush=True)
    sys.stdin.readline()
    print("ended", message.body, flush=True)
    return message.body

Client(sys.argv[1], key=sys.argv[2]).consume("billing", "invoices", handle, concurrency=2)
print("drained", flush=True)
"""


async def test_sigterm_lets_handlers_finish_and_claims_no_more(room: Room, tmp_path: Path) -> None:
    for n in range(5):
        await room.publish(body=n)
    program = tmp_path / "consumer.py"
    program.write_text(PROGRAM)
    with Child(sys.executable, program, room.service.url, room.key) as child:
        assert (await asyncio.to_thread(child.line)).startswith("begun")
        child.process.send_signal(signal.SIGTERM)
        child.close_stdin()  # which the handlers wait for
        assert await asyncio.to_thread(child.ended) == 0, child.err
    said = child.out
    assert said.split()[-1] == "drained"
    begun = said.count("begun")  # not by lines: handlers in threads may write into each other's
    queue = await room.do("GET", QUEUE)
    assert queue["depth_claimed"] == 0
    assert queue["depth_pending"] == 5 - begun
    assert said.count("ended") == begun
