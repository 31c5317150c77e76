"""The stream queues that messages become jobs of: opened when they are first needed, closed with the rest."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from relevo.arguments import checked_queue_name
from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.engine.events.queue_events import QueueEvent, events_after, last_event_id
from relevo.engine.queue import Queue
from relevo.errors import StreamQueueClosed
from relevo.wire.keys import QueueKeys

_OURS = "work."
"""How the streams of events begin, which are the installation's own."""
_PAGE = 1_000
_TEXTS = frozenset({"reason", "error", "error_type"})
"""Fields of an event in which somebody's words stand."""
_WAIT_S = 3.0
"""Whoever waits for Redis here comes again."""


class StreamQueues:
    """One `Queue` for each name."""

    def __init__(self, redis_url: str | None, allowed: Sequence[str]) -> None:
        self._redis_url = redis_url
        self._allowed = allowed
        self._open: dict[str, Queue] = {}
        self._links: dict[str, Link] = {}

    @property
    def there(self) -> bool:
        """Whether the installation has a Redis at all."""
        return self._redis_url is not None

    def require_open(self, tenant: str, name: str) -> None:
        """Stream queues belong to no tenant: which of them a tenant may use, the one who runs the installation says."""
        checked_queue_name(name)
        ours = name.startswith(_OURS) or not name.isascii() or len(name) > 200
        for allowed in () if ours else self._allowed:
            owner, equals, pattern = allowed.rpartition("=")
            if (not equals or owner == tenant) and fnmatchcase(name, pattern):
                return
        raise StreamQueueClosed(queue=name)

    def get(self, name: str) -> Queue:
        if self._redis_url is None:
            raise StreamQueueClosed(queue=name)
        if name not in self._open:
            self._open[name] = Queue(name, redis_url=self._redis_url, wait_s=_WAIT_S)
        return self._open[name]

    async def events(self, name: str, place: str, count: int) -> list[QueueEvent]:
        """The events of a stream queue behind a place. A gap is not asked for."""
        return await events_after(self._link(name), QueueKeys(name), place, count)

    async def last_event_id(self, name: str) -> str:
        return await last_event_id(self._link(name), QueueKeys(name))

    async def forget_reasons(self, name: str, ids: frozenset[str]) -> None:
        """Removes the events of these jobs (or messages, where `name` is the stream of a work queue) that say why something
        happened: reasons are written by workers, who write what they like."""
        link, keys, place = self._link(name), QueueKeys(name), "0-0"
        while events := await events_after(link, keys, place, _PAGE):
            told = [event.id for event in events if event.job_id in ids and event.fields.keys() & _TEXTS]
            if told:
                await link.call("XDEL", keys.events, *told)
            place = events[-1].id

    async def close(self) -> None:
        queues, self._open = self._open, {}
        links, self._links = self._links, {}
        for each in (*queues.values(), *links.values()):
            await each.close()

    def _link(self, name: str) -> Link:
        if self._redis_url is None:
            raise StreamQueueClosed(queue=name)
        if name not in self._links:
            address = Address.parse(self._redis_url)
            self._links[name] = Link(address, QueueKeys(name).tag, purpose="stream-bridge", wait=_WAIT_S)
        return self._links[name]
