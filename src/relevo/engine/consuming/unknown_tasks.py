"""Jobs whose task this worker does not know, as in a rolling deploy: they go back uncounted, for a while.

How long a job has been refused is told by a key that the first refusal makes, by any worker, and that the server counts down:
no clock of a worker's own is in it, and it goes away by itself.
"""

from __future__ import annotations

import logging

from relevo.broker.link import Link
from relevo.broker.resp import command
from relevo.errors import RelevoError, UnknownTask
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.jobs")

_SOONEST_S = 0.25
_LATEST_S = 5.0


class UnknownTasks:
    """What this worker refuses; `give_up_s` after the first refusal of a job, by whomever, it is dead."""

    def __init__(self, link: Link, keys: QueueKeys, *, give_up_s: float) -> None:
        self._link = link
        self._keys = keys
        self._give_up_s = give_up_s
        self._told: set[str] = set()

    async def wait_s(self, job_id: str, error: UnknownTask) -> float | None:
        """How long the job waits before somebody is asked again; None when it has been refused for long enough."""
        if not self._give_up_s:
            return None
        refused_s = await self._refused_s(job_id)
        if refused_s >= self._give_up_s:
            return None
        self._tell(error)
        # As long again as it was refused so far: soon at first, and not often when nobody comes.
        return min(max(refused_s, _SOONEST_S), _LATEST_S, max(self._give_up_s - refused_s, 0.001))

    async def _refused_s(self, job_id: str) -> float:
        key, kept_ms = self._keys.refused(job_id), int(self._give_up_s * 2000)
        asked = command("SET", key, kept_ms, "PX", kept_ms, "NX") + command("PTTL", key)
        try:
            _, left = await self._link.send(asked, 2)
            return max(0.0, (kept_ms - int(self._link.checked(left, "PTTL"))) / 1000)
        except (RelevoError, OSError):  # nobody can tell: to let it go back harms nobody
            return 0.0

    def forget(self, job_id: str) -> bytes:
        """The packed command that lets a job that died of it begin anew when it is replayed."""
        return command("UNLINK", self._keys.refused(job_id))

    def _tell(self, error: UnknownTask) -> None:
        if error.name in self._told or len(self._told) > 1000:
            return
        self._told.add(error.name)
        log.warning(
            "queue %s: no task named %r in this worker, which has %s; its jobs go back and are not counted, and are dead when "
            "nobody has taken them for %g s",
            self._keys.queue,
            error.name,
            error.known,
            self._give_up_s,
        )
