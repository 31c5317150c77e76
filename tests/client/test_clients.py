"""The typed clients: every call, both kinds, errors by their code, and what is sent again."""

import asyncio
import inspect
import re

import httpx
import pytest

from relevo.client import AsyncClient, Client, Failure
from relevo.client.request import BY_CODE
from relevo.errors import (
    BadArgument,
    ClaimLost,
    IdempotencyConflict,
    NotFound,
    ServiceUnreachable,
    Unauthenticated,
    WorkError,
)
from tests.client.unasync import NOUNS, target, unasynced
from tests.patience import until
from tests.support.room import Room


@pytest.mark.parametrize("noun", NOUNS)
def test_the_client_without_asyncio_is_made_from_the_other(noun: str) -> None:
    assert target(noun).read_text() == unasynced(noun), "run `python -m tests.client.unasync`"


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, str]:
        return {
            name: re.sub(r"Async(BaseTransport|Generator)|, None, None", r"\1", str(inspect.signature(member)))
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(AsyncClient) == methods(Client)


async def test_a_message_goes_through_its_life(client: AsyncClient) -> None:
    published = await client.publish("billing", "invoices", {"n": 1}, labels={"subject": "42"}, priority_tier="high")
    (claimed,) = await client.claim("billing", "invoices", wait_s=5)
    assert (claimed.id, claimed.body, claimed.labels) == (published.id, {"n": 1}, {"subject": "42"})
    assert (await client.extend("billing", claimed, 60)).claim_until is not None
    assert (await client.complete("billing", claimed, {"paid": True})).state == "completed"
    message = await client.message("billing", published.id)
    assert (message.state, message.result, message.priority_tier) == ("completed", {"paid": True}, "high")
    assert [step.event for step in (await client.history("billing", published.id)).items] == [
        "published",
        "claimed",
        "extended",
        "completed",
    ]
    found = await client.search("billing", labels={"subject": "42"}, archived=False)
    assert [each.id for each in found.items] == [published.id]


async def test_dead_letters_are_listed_and_replayed(client: AsyncClient) -> None:
    published = await client.publish("billing", "invoices", {"n": 1})
    (claimed,) = await client.claim("billing", "invoices")
    await client.fail("billing", claimed, "no such account", dead=True)
    (letter,) = (await client.dead_letters("billing", queue="invoices")).items
    assert (letter.id, letter.reason) == (published.id, "no such account")
    assert (await client.start_replay("billing", {"queue": "invoices"}, dry_run=True)).total == 1
    replay = await client.start_replay("billing", {"queue": "invoices"})
    await client.run_agent("replay_runner")

    async def is_done() -> bool:
        return (await client.replay("billing", replay.id)).done == 1

    await until(is_done)  # whoever comes while it runs by itself is told how that stands, and does not wait
    (again,) = await client.claim("billing", "invoices", wait_s=10)
    assert again.id == published.id


async def test_an_exception_is_told_with_the_failure_by_both_clients_alone_and_in_a_batch(room: Room) -> None:
    def pay() -> None:
        raise LookupError("no account \ud800")

    with pytest.raises(LookupError) as caught:
        pay()
    error = caught.value
    async with AsyncClient(room.service.url, key=room.key) as client:
        for n in range(3):
            await client.publish("billing", "invoices", n)
        alone, many, other = await client.claim("billing", "invoices", batch_size=3)
        await client.fail("billing", alone, error=error)
        items = [{"id": many.id, "claim_token": many.claim_token, "error": error}]
        await client.settle_batch("billing", "invoices", "fail", items)
        with Client(room.service.url, key=room.key) as plain:
            told = {"type": "Bankrupt", "message": "no money"}
            await asyncio.to_thread(plain.fail, "billing", other, "as expected", error=told, dead=True)
        for claimed in (alone, many):
            message = await client.message("billing", claimed.id)
            assert message.failure_reason == "LookupError: no account \\ud800"
            assert message.error is not None
            assert message.error.stack is not None
            assert message.error.stack.startswith("Traceback (most recent call last):")
            assert "in pay" in message.error.stack
        (letter,) = (await client.dead_letters("billing")).items
        assert (letter.reason, letter.error) == (
            "as expected (Bankrupt: no money)",
            Failure(type="Bankrupt", message="no money"),
        )
        with pytest.raises(BadArgument, match="Pass the exception as `error`"):
            await client.fail("billing", other)


async def test_a_problem_document_becomes_the_error_of_its_code(client: AsyncClient) -> None:
    await client.publish("billing", "invoices", 1, idempotency_key="k")
    (claimed,) = await client.claim("billing", "invoices")
    await client.complete("billing", claimed)
    with pytest.raises(NotFound, match="no scope 'nope'"):
        await client.scope("nope")
    with pytest.raises(IdempotencyConflict):
        await client.publish("billing", "invoices", 2, idempotency_key="k")
    with pytest.raises(ClaimLost) as lost:
        await client.fail("billing", claimed, "late")
    assert lost.value.code == "CLAIM_LOST"
    assert lost.value.http_status == 409
    assert lost.value.request_id


def test_every_code_has_one_class() -> None:
    assert len(BY_CODE) > 25
    assert all(issubclass(kind, WorkError) and kind.code == code for code, kind in BY_CODE.items())


def test_a_client_without_a_key_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELEVO_KEY", raising=False)
    with pytest.raises(Unauthenticated):
        Client("http://127.0.0.1:1")


def test_a_client_does_not_show_its_key() -> None:
    with Client("http://127.0.0.1:1", key="rlv_secret") as client:
        assert "secret" not in repr(client)


async def test_the_client_without_asyncio_does_the_same(room: Room) -> None:
    def story() -> object:
        with Client(room.service.url, key=room.key) as client:
            published = client.publish("billing", "invoices", {"n": 1})
            (claimed,) = client.claim("billing", "invoices", wait_s=5)
            client.complete("billing", claimed, "done")
            assert client.ready()
            return client.message("billing", published.id).result

    assert await asyncio.to_thread(story) == "done"


def test_where_nothing_listens_the_client_says_where() -> None:
    with (
        Client("http://127.0.0.1:9", key="rlv_x", retry_s=0.2) as client,
        pytest.raises(ServiceUnreachable, match=":9"),
    ):
        client.scopes()


class _Flaky(httpx.AsyncBaseTransport):
    """Lets requests through and loses the first answers."""

    def __init__(self, losing: int) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self.losing = losing
        self.sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        response = await self._inner.handle_async_request(request)
        if self.losing > 0:
            self.losing -= 1
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("the answer was lost")
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _flaky(room: Room, losing: int) -> tuple[AsyncClient, _Flaky]:
    transport = _Flaky(losing)
    return AsyncClient(room.service.url, key=room.key, transport=transport), transport


async def test_a_publish_whose_answer_was_lost_is_sent_again_and_published_once(room: Room) -> None:
    client, transport = _flaky(room, 2)
    async with client:
        published = await client.publish("billing", "invoices", {"n": 1})
        assert (published.duplicate, transport.sent) == (True, 3)
    assert (await room.do("GET", "/v1/scopes/billing/queues/invoices"))["depth_pending"] == 1


async def test_a_complete_whose_answer_was_lost_is_sent_again_and_done_once(room: Room) -> None:
    await room.publish()
    client, transport = _flaky(room, 0)
    async with client:
        (claimed,) = await client.claim("billing", "invoices")
        transport.losing = 1
        assert (await client.complete("billing", claimed)).state == "completed"
    history = await room.do("GET", f"/v1/scopes/billing/messages/{claimed.id}/history")
    assert [step["event"] for step in history] == ["published", "claimed", "completed"]


async def test_a_claim_whose_answer_was_lost_is_not_sent_again(room: Room) -> None:
    await room.publish()
    client, transport = _flaky(room, 1)
    async with client:
        with pytest.raises(ServiceUnreachable):
            await client.claim("billing", "invoices")
    assert transport.sent == 1
