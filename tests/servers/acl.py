"""A user of a server with limited rights."""

from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit, urlunsplit

from tests.servers.server import Server

# What an application's user is usually given: its own keys, and no administration.
APPLICATION_RULES = ("~{chasqui:*", "&*", "+@all", "-@admin", "-@dangerous")


class AclUser:
    """A user for as long as the context lasts; `url` logs in as that user."""

    def __init__(
        self,
        server: Server,
        name: str = "app",
        *,
        password: str = "s3cret/+",  # noqa: S107 - it must survive a URL
        rules: tuple[str, ...] = APPLICATION_RULES,
    ) -> None:
        self._server = server
        self._name = name
        self._password = password
        self._rules = rules

    @property
    def url(self) -> str:
        parts = urlsplit(self._server.url)
        login = f"{quote(self._name, safe='')}:{quote(self._password, safe='')}"
        return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}"))

    def __enter__(self) -> Self:
        self._server.call("ACL", "SETUSER", self._name, "reset", "on", f">{self._password}", *self._rules)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.call("ACL", "DELUSER", self._name)
