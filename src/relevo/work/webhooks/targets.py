"""Where a webhook may go: to addresses of the public internet, unless the installation allows others by name.

The check is made at the moment of connecting, on the very address that is then connected to: a name that points elsewhere
when it is asked a second time, and a redirect to an inner address, meet the same check.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import urlsplit

import httpcore

from relevo.errors import BadWebhookUrl, WebhookTargetRefused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")


def is_public(address: Address) -> bool:
    """Whether it belongs to the internet at large, also when an IPv4 address hides in an IPv6 one.

    >>> [
    ...     is_public(ipaddress.ip_address(text))
    ...     for text in ("93.184.215.14", "10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1")
    ... ]
    [True, False, False, False]
    """
    if isinstance(address, ipaddress.IPv6Address):
        hidden = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            hidden = address.teredo[1]
        if address in _NAT64:
            hidden = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address in _NAT64_LOCAL or (int(address) >> 32 == 0 and address.ipv4_mapped is None):
            return False  # IPv4-compatible addresses and the unspecified one are of no use to anybody honest
        if hidden is not None:
            return is_public(hidden)
    return address.is_global and not address.is_multicast and not address.is_reserved


def checked_url(url: str, *, allow_http: bool = False) -> str:
    """The URL itself; `BadWebhookUrl` when it can never be a target. Names are looked up only when it is called.

    >>> checked_url("https://example.org/hook?x=1")
    'https://example.org/hook?x=1'
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadWebhookUrl(url=url[:100], reason=str(error)) from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise BadWebhookUrl(url=url[:100], reason="it is not an https address")
    if parts.scheme == "http" and not allow_http:
        raise BadWebhookUrl(url=url[:100], reason="events would travel in the clear; use https")
    if parts.username is not None or parts.password is not None:
        raise BadWebhookUrl(
            url=f"{parts.scheme}://…@{parts.hostname}", reason="a password in an address ends up in logs"
        )
    if port == 0 or len(url) > 2_000 or any(ord(character) < 33 for character in url):
        raise BadWebhookUrl(
            url=url[:100], reason="it is longer than 2000 characters or has characters that do not belong"
        )
    return url


class Guard:
    """Says which addresses may be connected to. `allowed` are networks and host names beside the public internet."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._hosts: set[str] = set()
        for each in allowed:
            try:
                self._networks.append(ipaddress.ip_network(each, strict=False))
            except ValueError:
                self._hosts.add(each.lower())

    def allows(self, host: str, address: Address) -> bool:
        if host.lower() in self._hosts or is_public(address):
            return True
        plain = (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address
        return any(plain.version == network.version and plain in network for network in self._networks)

    def names(self, host: str) -> bool:
        """Whether the installation itself named this host, or a network that this address is in: then it may also be spoken
        to in the clear."""
        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return host.lower() in self._hosts
        return host.lower() in self._hosts or any(
            address.version == network.version and address in network for network in self._networks
        )

    def checked(self, url: str) -> str:
        """As `checked_url`; in the clear only to hosts that the installation named."""
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            host = ""
        return checked_url(url, allow_http=self.names(host))

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of `host`, all of which are allowed: one that is not condemns the name as a whole."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise WebhookTargetRefused(host=host, reason=f"its name cannot be looked up ({error.strerror})") from None
        addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
        for address in addresses:
            if not self.allows(host, address):
                raise WebhookTargetRefused(
                    host=host, reason="it leads to an address that is not of the public internet"
                )
        return list(dict.fromkeys(str(address) for address in addresses))


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects only where the guard allows, to the address it looked at. The certificate is still checked by name."""

    def __init__(self, guard: Guard, network: httpcore.AsyncNetworkBackend | None = None) -> None:
        self._guard = guard
        # httpcore shows a stand-in without methods to type checkers when anyio may be missing; we depend on it.
        self._network: httpcore.AsyncNetworkBackend = network or cast(
            "httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend()
        )

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._guard.addresses(host, port)
        failure: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002 the signature is httpcore's
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        raise WebhookTargetRefused(host=path, reason="it is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
