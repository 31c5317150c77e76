"""The server the commands of one call talk to, from --redis-url. Many talk to none: what talks to one is imported late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import typer

from relevo.cli.shell.output import hint
from relevo.cli.shell.run_file import data_folder, find_running, place_of

if TYPE_CHECKING:
    from relevo.broker.address import Address
    from relevo.broker.link import Link
    from relevo.broker.scripts import Script
    from relevo.engine.queue import Queue
    from relevo.wire.keys import QueueKeys

DEFAULT_URL = "redis://127.0.0.1:6379"

REDIS_URL_HELP = (
    "redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://. Without one: the server of a `relevo up` that runs "
    f"in this folder, else {DEFAULT_URL}."
)

T = TypeVar("T")


@dataclass(slots=True)
class Server:
    """Where it is and how long to wait for it. `given` is what the caller said, None when they did not."""

    given: str | None
    patience: float
    quiet: bool = False
    _found: str | None = None

    @property
    def url(self) -> str:
        """The server that was named, else that of a `relevo up` in this folder (which is said), else the default."""
        if self.given is not None:
            return self.given
        if self._found is None:
            self._found = self._look()
        return self._found

    def _look(self) -> str:
        folder = data_folder()
        running = find_running(folder)
        if running is None:
            return DEFAULT_URL
        if not self.quiet:
            hint(f"using the server of `relevo up` in {place_of(folder)} ({running.redis_url})")
        return running.redis_url

    @property
    def address(self) -> Address:
        from relevo.broker.address import Address

        return Address.parse(self.url)

    def queue(self, name: str) -> Queue:
        from relevo.engine.queue import Queue

        return Queue(name, redis_url=self.url, wait_s=self.patience)

    def ask(self, queue: str, question: Callable[[Queue], Awaitable[T]]) -> T:
        """Opens a queue, asks it, and closes it."""

        async def asked() -> T:
            async with self.queue(queue) as opened:
                return await question(opened)

        return asyncio.run(asked())

    def ask_link(
        self, queue: str, question: Callable[[Link, QueueKeys], Awaitable[T]], *, scripts: Iterable[Script] = ()
    ) -> T:
        """The same with the connection itself, for what a `Queue` does not know."""
        from relevo.arguments import checked_queue_name
        from relevo.wire.keys import QueueKeys

        keys = QueueKeys(checked_queue_name(queue))

        async def asked() -> T:
            async with self.link(keys, scripts=scripts) as link:
                return await question(link, keys)

        return asyncio.run(asked())

    def must_answer(self, queue: str = "relevo") -> None:
        """Says at once when the server is away or the address wrong: what comes after this may wait for a server."""

        async def nothing(_link: Link, _keys: QueueKeys) -> None:
            pass

        self.ask_link(queue, nothing)

    @asynccontextmanager
    async def link(
        self, keys: QueueKeys, address: Address | None = None, *, scripts: Iterable[Script] = ()
    ) -> AsyncGenerator[Link]:
        """A connection to the node that holds a queue's keys."""
        from relevo.broker.link import Link

        link = Link(address or self.address, keys.tag, purpose="cli", scripts=scripts, wait=self.patience)
        try:
            await link.ready()
            yield link
        finally:
            await link.close()


def server_of(ctx: typer.Context) -> Server:
    found = ctx.find_object(Server)
    assert found is not None  # the callback of the app has run before any command
    return found
