"""The registry of queues: the names of all that relevo writes to, in one set, for those who look for all of them.

Whoever opens a queue says its name once a connection (`registering`, one of a link's opening words). Nobody depends on it:
a queue that only ChasquiMQ or an older relevo writes to is not in it, nor is one whose user may not write the key.
"""

from __future__ import annotations

from contextlib import suppress

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import command
from relevo.errors import RelevoError
from relevo.wire.keys import REGISTRY, REGISTRY_TAG, QueueKeys

_ANSWER_S = 3.0


def registering(keys: QueueKeys) -> bytes:
    """The packed command that names a queue in the registry."""
    return command("SADD", REGISTRY, keys.queue)


class QueueRegistry:
    """The registry on one server, for those who write to many queues over one connection, or delete one."""

    def __init__(self, address: Address) -> None:
        self._link = Link(address, REGISTRY_TAG, purpose="registry", wait=_ANSWER_S)
        self._told: set[str] = set()

    async def add(self, queue: str) -> None:
        """Names a queue, the first time only. What hinders it is no hindrance for the caller."""
        if queue not in self._told:
            self._told.add(queue)
            with suppress(RelevoError):
                await self._link.call("SADD", REGISTRY, queue)

    async def remove(self, queue: str) -> None:
        self._told.discard(queue)
        with suppress(RelevoError):
            await self._link.call("SREM", REGISTRY, queue)

    async def close(self) -> None:
        await self._link.close()
