"""What operators do with a queue: pause it, look inside, clear it up. `Queue` has these as methods of its own."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any

from relevo.arguments import instance
from relevo.broker.link import Link
from relevo.engine.admin.job_pages import SCRIPTS as INTROSPECTION_SCRIPTS
from relevo.engine.admin.job_pages import JobPage, Jobs
from relevo.engine.admin.maintenance import SCRIPTS as MAINTENANCE_SCRIPTS
from relevo.engine.admin.maintenance import Maintenance
from relevo.engine.admin.progress import JobProgress
from relevo.engine.admin.snapshot import QueueSnapshot
from relevo.engine.job.job import Job
from relevo.wire.envelope_encoder import checked_job_id
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.queue")

SCRIPTS = (*INTROSPECTION_SCRIPTS, *MAINTENANCE_SCRIPTS)


class QueueAdmin(ABC):
    """The short forms; `jobs` and `maintenance` have everything."""

    _keys: QueueKeys
    _group: str

    @abstractmethod
    def _admin_link(self) -> Link: ...

    @abstractmethod
    async def wait_for_result(self, job_id: str, *, timeout: float = 30.0, poll_interval: float = 0.1) -> Any: ...

    @property
    def jobs(self) -> Jobs:
        """The jobs of this queue, as the workers of `consumer_group` see them."""
        return Jobs(self._admin_link(), self._keys, self._group, self)

    @property
    def maintenance(self) -> Maintenance:
        return Maintenance(self._admin_link(), self._keys, self._group)

    # --- pause ---------------------------------------------------------------------------------------------------------

    async def pause(self) -> None:
        """Stops all workers of the queue, within a quarter of a second and until `resume`, also those that start later. What
        runs is finished; jobs may still be added and wait. ChasquiMQ's newer workers look at the same key."""
        await self._admin_link().call("SET", self._keys.paused, "1")

    async def resume(self) -> None:
        await self._admin_link().call("DEL", self._keys.paused)

    async def is_paused(self) -> bool:
        return await self._admin_link().call("EXISTS", self._keys.paused) == 1

    # --- look ----------------------------------------------------------------------------------------------------------

    async def stats(self) -> QueueSnapshot:
        """The numbers of the queue at one moment; scale on `backlog` and `oldest_waiting_ms`."""
        return await QueueSnapshot.take(self._admin_link(), self._keys, self._group)

    async def get_job(self, job_id: str) -> Job | None:
        """The job with this id, wherever it is; see `Jobs.find` for how far the search goes. A completed job comes with its id
        alone, a job whose data cannot be read not at all."""
        found = await self.jobs.find(checked_job_id(job_id))
        self._tell(job_id, found.state, found.complete)
        return found.job

    async def get_job_state(self, job_id: str) -> str:
        """One of active, delayed, waiting, failed, completed (a result is stored), or unknown."""
        found = await self.jobs.find(checked_job_id(job_id))
        self._tell(job_id, found.state, found.complete)
        return found.state

    async def get_jobs(self, state: str, *, offset: int = 0, limit: int = 100, cursor: str | None = None) -> list[Job]:
        """Jobs of one state, without the first `offset`; many are better read with `get_jobs_page`."""
        page = await self.jobs.page(state, limit=limit, offset=offset, cursor=cursor)
        if page.bounded:
            log.warning("queue %s: not all of its entries were looked at for %s jobs", self._keys.queue, state)
        return page.jobs[:limit]

    async def get_jobs_page(self, state: str, *, limit: int = 100, cursor: str | None = None) -> JobPage:
        """Jobs of one state and the cursor of the next page; see `Jobs.page`."""
        return await self.jobs.page(state, limit=limit, cursor=cursor)

    async def get_job_counts(self, *types: str) -> dict[str, int]:
        """How many jobs are in each state, and 1 as `paused` when the queue is; see `Jobs.counts`."""
        return await self.jobs.counts(*types)

    async def get_waiting_count(self) -> int:
        return await self._count("waiting")

    async def get_active_count(self) -> int:
        return await self._count("active")

    async def get_delayed_count(self) -> int:
        return await self._count("delayed")

    async def get_completed_count(self) -> int:
        return await self._count("completed")

    async def get_failed_count(self) -> int:
        return await self._count("failed")

    async def count(self) -> int:
        """Jobs that are not finished: waiting, active and delayed."""
        return sum((await self.jobs.counts("waiting", "active", "delayed")).values())

    async def get_job_logs(
        self, job_id: str, *, start: int = 0, end: int = -1, asc: bool = True
    ) -> tuple[list[str], int]:
        """What a job has logged: the lines from `start` to `end` (counted from 0, negative ones from the end), and how many
        there are in all. Kept for a while after the job's last word."""
        instance("start", start, int)
        instance("end", end, int)
        progress = JobProgress(self._admin_link(), self._keys)
        return await progress.lines(checked_job_id(job_id), start=start, end=end, asc=asc)

    async def get_job_progress(self, job_id: str) -> int | None:
        """How far a job says it is, from 0 to 100; None when it has said nothing (or long ago)."""
        return await JobProgress(self._admin_link(), self._keys).progress(checked_job_id(job_id))

    # --- clear up ------------------------------------------------------------------------------------------------------

    async def remove(self, job_id: str) -> int:
        """Removes a job that does not run; the number of places it was removed from."""
        return (await self.maintenance.remove(checked_job_id(job_id))).count

    async def remove_report(self, job_id: str) -> dict[str, bool]:
        """`remove`, telling from where: delayed, stream, dlq, result."""
        return (await self.maintenance.remove(checked_job_id(job_id))).as_report()

    async def drain(self, delayed: bool = True) -> int:
        """Removes all jobs that nobody has begun; see `Maintenance.drain`."""
        return await self.maintenance.drain(delayed=delayed)

    async def clean(self, grace_ms: int, limit: int, state: str = "completed") -> list[str]:
        """Removes up to `limit` jobs of a state that are older than `grace_ms`; their ids. See `Maintenance.clean`."""
        return await self.maintenance.clean(grace_ms, limit, state)

    async def obliterate(self, *, force: bool = False) -> int:
        """Deletes the queue and all that belongs to it; see `Maintenance.obliterate`."""
        return await self.maintenance.obliterate(force=force)

    async def _count(self, state: str) -> int:
        return (await self.jobs.counts(state))[state]

    def _tell(self, job_id: str, state: str, complete: bool) -> None:
        if state == "unknown" and not complete:
            log.warning(
                "job %s was not found in the part of queue %s that was searched; `queue.jobs.find(job_id, most=...)` goes on",
                job_id,
                self._keys.queue,
            )
