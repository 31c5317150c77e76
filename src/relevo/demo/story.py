"""Tells the story: the acts in order, the queue's own events between them, the sum at the end."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from pathlib import Path

from rich.console import Console

from relevo.demo import acts, people, plans, record
from relevo.demo.house import LETTERS, NIGHT, PARCELS, House
from relevo.demo.size import FAST, SLOW
from relevo.demo.stage import Scene, Stage
from relevo.demo.tally import Tally
from relevo.engine.events.queue_events import QueueEvent, QueueEvents
from relevo.errors import RelevoError

_SHOWN = {"failed": "yellow", "retry-scheduled": "yellow", "dlq": "red", "stalled": "magenta", "waiting": "blue"}
_EVERY_S = 0.4

ACTS = {
    "produce": acts.produce,
    "run": acts.run,
    "retry": acts.fail_and_retry,
    "delay": acts.delay,
    "schedule": plans.schedule,
    "flow": plans.flow,
    "limit": plans.limit,
    "dead-letter": acts.dead_letter,
    "replay": acts.replay,
    "worker dies": acts.lose_a_worker,
    "server dies": acts.lose_the_server,
    "correct": people.correct,
    "report": record.report,  # the last: it is about all others
}


class Story:
    """One telling. `tell` answers whether all numbers added up."""

    def __init__(self, folder: Path, page: Path, console: Console, *, fast: bool = False) -> None:
        self.tally = Tally()
        self._size = FAST if fast else SLOW
        self._scenes = [Scene(title, inspect.cleandoc(act.__doc__ or "")) for title, act in ACTS.items()]
        self._stage = Stage(console, self._scenes, [PARCELS, LETTERS, NIGHT])
        self._house = House(folder, page, self._stage, self.tally)

    async def tell(self) -> bool:
        started = time.monotonic()
        with self._stage:
            async with self._house.open():
                await self._play()
                await self._check_empty()
        self._stage.summary(self.tally, time.monotonic() - started, self._house.epilogue)
        return self.tally.holds

    async def _play(self) -> None:
        reporters = [asyncio.create_task(self._report(name)) for name in (LETTERS, NIGHT)]
        try:
            for scene, act in zip(self._scenes, ACTS.values(), strict=True):
                self._stage.begin(scene)
                checks = len(self.tally.checks)
                outcome = await act(self._house, self._size)
                held = all(check.holds for check in self.tally.checks[checks:])
                self._stage.end(scene, outcome, failed=not held)
                await asyncio.sleep(self._size.pause_s)
        finally:
            for reporter in reporters:
                reporter.cancel()
            await asyncio.wait(reporters)

    async def _check_empty(self) -> None:
        left = 0
        for name in (PARCELS, LETTERS, NIGHT):
            seen = await self._house.snapshot(name)
            left += seen.stream + seen.delayed + seen.dead
        self.tally.equal("jobs left anywhere at the end", 0, left)

    async def _report(self, queue: str) -> None:
        """Shows the queue's own events, as far as the eye can follow."""
        shown: dict[str, float] = {}
        with contextlib.suppress(RelevoError):
            async with QueueEvents(queue, redis_url=self._house.url) as events:
                async for event in events:
                    now = time.monotonic()
                    if event.name in _SHOWN and now - shown.get(event.name, 0.0) > _EVERY_S:
                        shown[event.name] = now
                        self._stage.news(_sentence(event), _SHOWN[event.name])


def _sentence(event: QueueEvent) -> str:
    fields = event.fields
    said = {
        "failed": f"failed at run {fields.get('attempt')}: {fields.get('reason')}",
        "retry-scheduled": f"runs again in {fields.get('backoff_ms')} ms (run {fields.get('attempt')})",
        "dlq": f"is dead: {fields.get('reason')}",
        "stalled": f"was left behind by a dead worker ({fields.get('attempt')}x)",
        "waiting": "is due and waits for a worker",
    }[event.name]
    return f"{event.job_name} {(event.job_id or '')[-6:]} {said}"
