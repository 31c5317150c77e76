"""What the client sends again, and with which key."""

import json
import time

import httpx
import pytest

from relevo.client import AsyncClient
from relevo.client.request import pause_s
from relevo.errors import EventsNotKept, ServiceUnreachable, SlugTaken, StoreUnavailable
from tests.support.room import Room


class Lossy(httpx.AsyncHTTPTransport):
    """Loses the answers of the first requests, after the server has done what they asked for."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self._left = answers
        self.keys: list[str | None] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("idempotency-key"))
        response = await super().handle_async_request(request)
        if self._left:
            self._left -= 1
            await response.aread()
            raise httpx.ReadError("the connection broke", request=request)
        return response


class WithoutDatabase(httpx.AsyncHTTPTransport):
    """As a node whose database is away for the first requests."""

    def __init__(self, requests: int, retry_after_s: int = 0) -> None:
        super().__init__()
        self.left = requests
        self._retry_after_s = retry_after_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self.left:
            return await super().handle_async_request(request)
        self.left -= 1
        told = {"code": StoreUnavailable.code, "detail": "away", "retry_after_s": self._retry_after_s}
        headers = {"retry-after": str(self._retry_after_s)}
        return httpx.Response(503, content=json.dumps(told), headers=headers, request=request)


async def test_what_makes_something_is_sent_again_with_its_key_and_done_once(room: Room) -> None:
    lossy = Lossy(answers=2)
    async with AsyncClient(room.service.url, key=room.key, transport=lossy) as client:
        made = await client.create_scope("once")
        assert (made.slug, len(lossy.keys), len(set(lossy.keys))) == ("once", 3, 1)
        with pytest.raises(SlugTaken):  # another call is another request
            await client.create_scope("once")


async def test_a_key_whose_secret_was_lost_on_its_way_can_be_given_another(room: Room) -> None:
    async with AsyncClient(room.service.url, key=room.key, transport=Lossy(answers=1)) as client:
        made = await client.create_key("k", ["view"])
        assert made.secret == ""
        turned = await client.rotate_key(made.key.id, grace_s=0)
        assert turned.secret.startswith("rlv_")
        assert [each.name for each in (await client.keys()).items].count("k") == 1


async def test_what_has_no_key_is_not_sent_again(room: Room) -> None:
    lossy = Lossy(answers=1)
    async with AsyncClient(room.service.url, key=room.key, transport=lossy) as client:
        with pytest.raises(ServiceUnreachable):
            await client.delete_queue("billing", "invoices")
    assert lossy.keys == [None]


async def test_a_database_that_is_away_is_waited_for_by_publishes_claims_and_events(room: Room) -> None:
    away = WithoutDatabase(requests=2)
    async with AsyncClient(room.service.url, key=room.key, transport=away) as client:
        published = await client.publish("billing", "invoices", {"n": 1})
        away.left = 2
        (claimed,) = await client.claim("billing", "invoices")
        assert claimed.id == published.id
        away.left = 2
        with pytest.raises(EventsNotKept):  # what a room without Redis answers as soon as it can
            await anext(client.events("billing"))
    assert away.left == 0


async def test_a_database_that_stays_away_is_waited_for_as_long_as_was_said(room: Room) -> None:
    away = WithoutDatabase(requests=1000, retry_after_s=3600)
    async with AsyncClient(room.service.url, key=room.key, transport=away, retry_s=0.3) as client:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await client.publish("billing", "invoices", {"n": 1})
    assert time.monotonic() - began >= 0.2
    assert away.left < 999  # the last attempt is made at the end of that time


@pytest.mark.parametrize(
    ("said", "left_s", "least", "most"), [("10", 60, 10, 12), ("10", 4, 4, 4), ("soon", 60, 0.05, 0.1)]
)
def test_a_pause_is_what_the_server_says_within_what_is_left(
    said: str, left_s: float, least: float, most: float
) -> None:
    assert least <= pause_s(0, httpx.Response(503, headers={"retry-after": said}), left_s) <= most
