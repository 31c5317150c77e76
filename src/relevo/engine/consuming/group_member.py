"""A worker as a member of its group: gives back what it will not run, and leaves without losing anything."""

from __future__ import annotations

import asyncio
import logging

from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import script
from relevo.engine.settling.delivery import Delivery, HeldDeliveries
from relevo.engine.settling.frame import whole_entries
from relevo.engine.settling.settler import Settler
from relevo.errors import RelevoError
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.group_member")

HAND_BACK = script("hand_back", __name__)
LEAVE = script("leave", __name__)

_AT_ONCE = 500


class GroupMember:
    """One consumer in one group."""

    def __init__(
        self, link: Link, keys: QueueKeys, group: str, consumer: str, held: HeldDeliveries, settler: Settler
    ) -> None:
        self._link = link
        self._keys = keys
        self._group = group
        self._consumer = consumer
        self._held = held
        self._settler = settler
        self._places = [keys.stream, keys.places]

    async def unblock(self, client_id: int) -> None:
        """Wakes a blocked read of ours, so that it takes nothing with it."""
        async with asyncio.timeout(2):
            await self._link.call("CLIENT", "UNBLOCK", client_id, "TIMEOUT")

    async def hand_back(self, deliveries: list[Delivery]) -> None:
        """Gives deliveries to whoever reads next, at once and without counting a delivery. A job whose frame has begun leaves
        it, and goes on as an entry of its own."""
        whole, leaving = whole_entries(deliveries)
        for delivery in leaving:
            self._settler.put_back(delivery)
        for at in range(0, len(whole), _AT_ONCE):
            some = whole[at : at + _AT_ONCE]
            arguments = [part for each in some for part in (each.entry_id, each.before)]
            try:
                async with asyncio.timeout(5):
                    await self._link.run(HAND_BACK, self._places, self._group, self._consumer, *arguments)
            except (RelevoError, OSError, TimeoutError) as error:
                queue = self._keys.queue
                log.warning("queue %s: %d jobs could not be handed back (%s)", queue, len(some), error)
            for each in some:
                self._held.pop(each.entry_id, None)

    async def leave(self) -> None:
        """Removes our consumer; what is still pending for it (a read that was answered too late) is handed back first."""
        try:
            async with asyncio.timeout(3):
                while await self._link.run(LEAVE, [self._keys.stream], self._group, self._consumer):
                    pending: Reply = await self._link.call(
                        "XPENDING", self._keys.stream, self._group, "-", "+", _AT_ONCE, self._consumer
                    )
                    arguments = [part for entry in pending for part in (entry[0], max(0, entry[3] - 1))]
                    await self._link.run(HAND_BACK, self._places, self._group, self._consumer, *arguments)
        except (RelevoError, OSError, TimeoutError) as error:
            queue = self._keys.queue
            log.debug("queue %s: the consumer stays in the group until it is swept (%s)", queue, error)
