"""Long polls wake up when there may be something to claim: at once in this process, through a Redis stream in others."""

from __future__ import annotations

from collections.abc import Mapping


class Wakeups:
    """Who waits for messages of which queue.

    `wake` is called after a commit that made messages claimable; it wakes as many waiting claims as there are messages, first
    come first served. A wake is a hint: whoever is woken looks into the database, and whoever is not looks there every
    `poll_s` all the same.
    """

    def wake(self, ready: Mapping[int, int]) -> None:
        """So many messages of these queues can be claimed now: wakes claims here and on other nodes. Never raises."""
        raise NotImplementedError

    async def wait(self, queue_id: int, seconds: float) -> bool:
        """Waits for a wake of this queue; False when none came in time."""
        raise NotImplementedError
