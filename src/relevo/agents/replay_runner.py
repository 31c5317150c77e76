"""Every second: carries the replays of dead letters on, each at its own rate (see work/dead_letters/replays.py)."""

from __future__ import annotations

import logging

from relevo.agents.agent import Batch
from relevo.errors import NotFound, StoreUnavailable
from relevo.work.caller import Caller
from relevo.work.work_queues import WorkQueues

log = logging.getLogger("relevo.agents")


class ReplayRunner:
    """Gives each replay a batch in turn. A replay with a rate gets what it may have had since its last batch, at most what it
    may have in one second: after a pause it does not catch up with a flood."""

    name = "replay_runner"
    every_s = 1.0
    about = "carries replays of dead letters on"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 200) -> None:
        self._work_queues = work_queues
        self._batch = batch
        self._caller = Caller.system(self.name)
        self._last_at: dict[str, int] = {}

    async def work(self) -> Batch:
        running = await self._work_queues.replays.running()
        self._last_at = {replay_id: at for replay_id, at in self._last_at.items() if replay_id in dict(running)}
        looked, more = 0, False
        for replay_id, rate in running:
            limit = self._allowance(replay_id, rate)
            if limit == 0:
                continue
            try:
                count = await self._work_queues.replays.advance(self._caller, replay_id, limit)
            except StoreUnavailable:
                raise
            except NotFound as gone:  # the queue that the filter names was deleted: it would fail for ever
                await self._work_queues.replays.fail(replay_id, str(gone))
                continue
            looked += count
            more = more or (rate is None and count == limit)
        return Batch(looked, more)

    def _allowance(self, replay_id: str, rate: int | None) -> int:
        if rate is None:
            return self._batch
        now = self._work_queues.now_ms()
        since = min(now - self._last_at.get(replay_id, now - 1000), 1000)
        allowed = min(rate * since // 1000, self._batch)
        if allowed:
            self._last_at[replay_id] = now
        return allowed
