"""Nothing is sent into our own network: not at first, not after a redirect, not after a name has changed its mind."""

import asyncio
import socket
from typing import Any

import pytest

from relevo.work.webhooks.sender import MOST_REDIRECTS, Sender, Told
from relevo.work.webhooks.targets import Guard
from tests.people.receiver import Receiver

PUBLIC = "93.184.215.14"


async def sent(url: str, *allowed: str, timeout_s: float = 15.0) -> Told:
    sender = Sender(Guard(allowed), timeout_s=timeout_s)
    try:
        return await sender.send(url, b"{}", ["whsec_1"], delivery="d", event="published", now_s=0)
    finally:
        await sender.close()


class Names:
    """What names stand for: each look may give another address. Real lookups are left to the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._known: dict[str, list[str]] = {}
        self._real = asyncio.get_running_loop().getaddrinfo
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self._look, raising=False)

    def say(self, host: str, *addresses: str) -> None:
        self._known[host] = list(addresses)

    async def _look(self, host: Any, port: Any, **options: Any) -> Any:
        if host not in self._known:
            return await self._real(host, port, **options)
        known = self._known[host]
        address = known.pop(0) if len(known) > 1 else known[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]


async def test_an_allowed_receiver_on_loopback_is_told(receiver: Receiver) -> None:
    assert await sent(receiver.url(), "127.0.0.1") == Told(204, None)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "10.1.2.3", "169.254.169.254", "192.168.0.9", "[::1]", "[fe80::1]", "0.0.0.0"],  # noqa: S104
)
async def test_addresses_inside_are_refused(host: str) -> None:
    told = await sent(f"https://{host}/hook")
    assert told.status is None
    assert told.error is not None
    assert "not of the public internet" in told.error


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_to_loopback_is_refused(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    names = Names(monkeypatch)
    names.say("receiver.test", "127.0.0.1")
    receiver.answer("/hook", status, location=receiver.url("/secret", host="127.0.0.1").replace("http:", "https:"))
    told = await sent(receiver.url(host="receiver.test"), "receiver.test")
    assert told.error is not None
    assert "127.0.0.1" in told.error
    assert [got.path for got in receiver.got] == ["/hook"]


async def test_a_redirect_from_https_rules_to_plain_http_is_refused(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Names(monkeypatch).say("receiver.test", "127.0.0.1")
    receiver.answer("/hook", 307, location="http://example.org/")
    told = await sent(receiver.url(host="receiver.test"), "receiver.test")
    assert told.error is not None
    assert "in the clear" in told.error


async def test_a_name_that_leads_inside_the_second_time_it_is_asked_is_refused_then(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(monkeypatch)
    names.say("changing.test", PUBLIC, "127.0.0.1")
    guard = Guard()
    assert await guard.addresses("changing.test", 443) == [PUBLIC]
    told = await sent(f"https://changing.test:{receiver.port}/hook")
    assert told.error is not None
    assert "not of the public internet" in told.error
    assert receiver.got == []


async def test_a_name_with_one_address_inside_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def both(_: Any, port: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in (PUBLIC, "10.0.0.1")]

    monkeypatch.setattr(loop, "getaddrinfo", both, raising=False)
    told = await sent("https://two.test/hook")
    assert told.error is not None
    assert "not of the public internet" in told.error


async def test_redirects_are_followed_with_the_body_up_to_three_times(receiver: Receiver) -> None:
    for hop in range(MOST_REDIRECTS):
        receiver.answer(f"/{hop}", 307, location=f"/{hop + 1}")
    assert await sent(receiver.url("/0"), "127.0.0.1") == Told(204, None)
    assert [got.path for got in receiver.got] == ["/0", "/1", "/2", "/3"]
    assert {got.body for got in receiver.got} == {b"{}"}
    assert len({got.headers["relevo-signature"] for got in receiver.got}) == 1


async def test_a_fourth_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answer("/hook", 308, location="/hook")
    assert await sent(receiver.url(), "127.0.0.1") == Told(None, "more than 3 redirects")
    assert len(receiver.got) == MOST_REDIRECTS + 1


async def test_a_redirect_to_nowhere_is_a_failure(receiver: Receiver) -> None:
    receiver.answer("/hook", 302)
    assert await sent(receiver.url(), "127.0.0.1") == Told(302, "302 without a place to go to")


async def test_nobody_at_the_door_is_a_failure_that_names_it(unused_tcp_port: int) -> None:
    told = await sent(f"http://127.0.0.1:{unused_tcp_port}/", "127.0.0.1")
    assert told.status is None
    assert told.error is not None
    assert told.error.startswith("ConnectError")


async def test_a_receiver_that_never_answers_is_left_after_a_while() -> None:
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await sent(f"http://127.0.0.1:{port}/", "127.0.0.1", timeout_s=0.3) == Told(
            None, "no answer within 0.3 s"
        )
        for writer in held:
            writer.close()
