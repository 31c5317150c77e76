import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

import httpcore
import pytest

from relevo.errors import BadWebhookUrl, WebhookTargetRefused
from relevo.work.webhooks.targets import Guard, GuardedNetwork, checked_url, is_public


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),  # noqa: S104
        *("100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fc00::1", "ff02::1", "2001:db8::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "::127.0.0.1"),
    ],
)
def test_an_inner_address_is_not_public_in_any_disguise(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.org/", "not an https"),
        ("/hook", "not an https"),
        ("https://", "not an https"),
        ("http://example.org/", "in the clear"),
        ("https://me:secret@example.org/", "password"),
        ("https://example.org:99999/", "(?i)port"),
        ("https://example.org/a b", "do not belong"),
        ("https://example.org/" + "a" * 2000, "2000"),
    ],
)
def test_an_address_that_can_never_be_a_target_is_refused_when_it_is_saved(url: str, words: str) -> None:
    with pytest.raises(BadWebhookUrl, match=words) as refused:
        checked_url(url)
    assert "secret" not in str(refused.value)


class Names:
    """A name service that changes its mind: each question gets the next answer."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        answer = self.answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in answer]


class Wire(httpcore.AsyncMockBackend):
    """Notes where it was asked to connect to."""

    def __init__(self) -> None:
        super().__init__([b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"])
        self.connected: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.connected.append(host)
        return await super().connect_tcp(host, port, timeout, local_address, socket_options)


async def test_the_address_that_was_checked_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(["93.184.215.14"], ["127.0.0.1"])
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.getaddrinfo)
    wire = Wire()
    await GuardedNetwork(Guard(), wire).connect_tcp("rebinding.example", 80)
    assert wire.connected == ["93.184.215.14"]
    with pytest.raises(WebhookTargetRefused):
        await GuardedNetwork(Guard(), wire).connect_tcp("rebinding.example", 80)
    assert wire.connected == ["93.184.215.14"]


async def test_a_name_with_one_inner_address_among_others_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", Names(["93.184.215.14", "10.0.0.7"]).getaddrinfo)
    wire = Wire()
    with pytest.raises(WebhookTargetRefused):
        await GuardedNetwork(Guard(), wire).connect_tcp("mixed.example", 443)
    assert wire.connected == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]".strip("[]"), "169.254.169.254", "2130706433", "0x7f.1"]
)
async def test_loopback_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(WebhookTargetRefused):
        await GuardedNetwork(Guard(), Wire()).connect_tcp(host, 80)


@pytest.mark.parametrize("allowed", ["127.0.0.0/8", "127.0.0.1", "localhost"])
async def test_an_inner_target_that_is_allowed_is_connected_to(allowed: str) -> None:
    wire = Wire()
    host = allowed if allowed == "localhost" else "127.0.0.1"
    await GuardedNetwork(Guard([allowed]), wire).connect_tcp(host, 80)
    assert wire.connected


async def test_a_socket_of_this_machine_is_never_a_target() -> None:
    with pytest.raises(WebhookTargetRefused):
        await GuardedNetwork(Guard(["0.0.0.0/0"]), Wire()).connect_unix_socket("/run/x.sock")
