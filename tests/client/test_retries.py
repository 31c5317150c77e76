"""What the client sends again, and with which key."""

import httpx
import pytest

from relevo.client import AsyncClient
from relevo.errors import ServiceUnreachable, SlugTaken
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
