"""The servers of one test run: each kind is started when a test first asks for it, shared, and closed at the end."""

from typing import TypeVar, cast

from tests.servers.binary import ServerUnavailable
from tests.servers.process import ServerFailed
from tests.servers.server import BorrowedServer, Server

S = TypeVar("S", bound=Server)


class ServerPool:
    """Hands out the shared server of a kind, and remembers which kinds could not be had."""

    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}
        self.unavailable: dict[str, str] = {}

    def get(self, kind: type[S]) -> S:
        """The shared server, running and empty; raises ServerUnavailable (the same each time) when there is none."""
        if reason := self.unavailable.get(kind.name):
            raise ServerUnavailable(reason)
        try:
            if kind.name not in self._servers:
                server = BorrowedServer.from_environment(kind.name) or kind()
                self._servers[kind.name] = server
                server.start()
            server = self._servers[kind.name]
            server.resume()
            if not server.running:  # a test killed it and did not restart it
                server.restart()
        except (ServerUnavailable, ServerFailed) as error:
            self._servers.pop(kind.name, None)
            self.unavailable[kind.name] = str(error)
            raise ServerUnavailable(str(error)) from error
        server.flush()
        return cast("S", server)  # a borrowed server stands in for its kind, as long as nobody kills it

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()
