"""Where a queue lives: the parts of a Redis URL, and who answers for a key (one server, a Sentinel master, a cluster node)."""

from __future__ import annotations

import binascii
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, unquote, urlsplit

from relevo.arguments import flag
from relevo.errors import BadArgument, BadUrl, WrongType

CredentialProvider = Callable[[str | None], Awaitable[tuple[str | None, str | None]]]

_KINDS = {
    "redis": "single",
    "rediss": "single",
    "valkey": "single",
    "valkeys": "single",
    "unix": "single",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
    "redis-cluster": "cluster",
    "rediss-cluster": "cluster",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis-sentinel": "sentinel",
    "rediss-sentinel": "sentinel",
}


@dataclass(frozen=True)
class Node:
    """One listening place: a host and port, or a socket file."""

    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Address:
    """A parsed Redis URL. Its text form never holds a password.

    >>> str(Address.parse("redis://:secret@10.0.0.7:6380/2"))
    'redis://10.0.0.7:6380/2'
    """

    kind: str
    nodes: tuple[Node, ...]
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    master: str = ""
    sentinel_password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    check_hostname: bool = True
    scheme: str = "redis"
    credentials: CredentialProvider | None = field(default=None, repr=False)

    @staticmethod
    def parse(url: str, *, tls: bool = False, credentials: CredentialProvider | None = None) -> Address:
        if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            if url is None:
                remedy = 'Pass "redis://127.0.0.1:6379" or the like, or leave it out. Is a setting missing?'
                raise WrongType(argument="redis_url", value=url, expected="str", remedy=remedy)
            # The value is not shown: as bytes it may hold a password.
            raise BadUrl(url="...", reason=f"expected str, got {type(url).__name__}")
        flag("tls", tls)
        _refuse_no_function(credentials)
        if not url.strip():
            raise BadUrl(url=url, reason="it is blank; a setting may be missing")
        if "://" not in url:
            url = "redis://" + url
        parts = urlsplit(url)
        scheme = parts.scheme.lower()
        if scheme != "unix" and "@" in parts.path + parts.query.partition("=")[0] + parts.fragment:
            # A bare / ? or # has cut the password in two: no part of this URL may be shown.
            reason = "its password holds a / ? or #: percent-encode it (%2F %3F %23)"
            raise BadUrl(url=f"{scheme}://...", reason=reason)
        shown = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        kind = _KINDS.get(scheme)
        if kind is None:
            raise BadUrl(url=shown, reason=f"unknown scheme {scheme!r}")
        if tls and scheme.startswith("redis") and not scheme.startswith("rediss"):
            scheme = "rediss" + scheme.removeprefix("redis")
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        userinfo, _, hosts = parts.netloc.rpartition("@")
        username, _, password = userinfo.partition(":")
        path = parts.path.strip("/")
        master, database = "", query.get("db", "")
        if scheme == "unix":
            nodes: tuple[Node, ...] = (Node("", 0, unquote(parts.path)),)
        else:
            nodes = tuple(_node(each, shown, 26379 if kind == "sentinel" else 6379) for each in hosts.split(","))
            if kind == "sentinel":
                master, _, path = path.partition("/")
                if not master:
                    raise BadUrl(url=shown, reason="no master name after the sentinels")
            database = path or database
        if database and not database.isdecimal():
            raise BadUrl(url=shown, reason=f"{database!r} is not a database number")
        return Address(
            kind=kind,
            nodes=nodes,
            db=int(database or 0),
            username=unquote(username) or None,
            password=unquote(password) or None,
            master=master,
            sentinel_password=query.get("sentinel_password"),
            tls=_tls_context(query, shown) if scheme.startswith(("rediss", "valkeys")) else None,
            scheme=scheme,
            credentials=credentials,
        )

    def __str__(self) -> str:
        places = ",".join(str(node) for node in self.nodes)
        tail = f"/{self.master}" if self.master else ""
        return f"{self.scheme}://{places}{tail}" + (f"/{self.db}" if self.db else "")

    def sentinel(self) -> Address:
        """How the sentinels themselves are reached: their own password, no database."""
        return replace(
            self, kind="single", db=0, username=None, password=self.sentinel_password, master="", credentials=None
        )


def _refuse_no_function(credentials: object) -> None:
    if credentials is not None and not callable(credentials):
        # The value is not shown: who passes no function may have passed the password.
        reason = f"expected a function, got {type(credentials).__name__}"
        remedy = "Pass an async function that takes the user's name or None and returns the name and the password."
        raise BadArgument(argument="credential_provider", value="...", reason=reason, remedy=remedy)


def _node(text: str, shown: str, default_port: int) -> Node:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text, ""
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise BadUrl(url=shown, reason=f"{port!r} is not a port")
    return Node(host.strip("[]") or "127.0.0.1", int(port or default_port))


def _tls_context(query: dict[str, str], shown: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=query.get("ssl_ca_certs"))
        if "ssl_certfile" in query:
            context.load_cert_chain(query["ssl_certfile"], query.get("ssl_keyfile"))
    except (OSError, ssl.SSLError) as error:
        raise BadUrl(url=shown, reason=f"a certificate file cannot be read ({error})") from error
    if query.get("ssl_check_hostname", "true").lower() in ("false", "0", "no"):
        context.check_hostname = False
    if query.get("ssl_cert_reqs", "required").lower() in ("none", "0"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def slot_of(key: bytes) -> int:
    """The cluster slot of a key: only what stands in its first braces counts.

    >>> slot_of(b"{chasqui:a}:stream") == slot_of(b"{chasqui:a}:dlq")
    True
    """
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return binascii.crc_hqx(key, 0) % 16384
