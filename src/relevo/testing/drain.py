"""Runs everything that is waiting in a queue, here and now, and tells what ran."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, NamedTuple

from relevo.engine.consuming.handlers import AnyHandler, as_handler, lifespan_of
from relevo.engine.job.job import Job
from relevo.engine.queue import Queue
from relevo.errors import BadArgument, DrainStuck, RateLimited
from relevo.testing.clock import Clock
from relevo.testing.inside import Inside, inside, worker_of

_LOOK_EVERY_S = 0.02


class Ran(NamedTuple):
    """One run of a job: what the handler returned, or what it raised (`parked` is a raised `RateLimited`)."""

    job: Job
    outcome: Literal["done", "failed", "parked"]
    value: Any
    error: Exception | None


async def drain(
    queue: Queue,
    handler: AnyHandler,
    *,
    with_delayed: bool = False,
    raise_errors: bool = True,
    timeout_s: float = 30.0,
    **worker_options: Any,
) -> list[Ran]:
    """Runs the jobs of `queue` with `handler` (a function or a `Tasks` object) until nothing is waiting or due, and returns the
    runs in the order of their ends.

    It is a real `Worker` that runs them, one job at a time unless you pass `concurrency`; other options of `Worker` may be
    passed as well. Jobs that the handlers enqueue are run too. Delayed jobs and retries that are not due stay where they
    are: turn a `Clock`, or pass `with_delayed=True` to have them all run, each as soon as nothing else is left.

    What a handler raises is raised here, once everything has run, so that no failure passes unseen; with
    `raise_errors=False` it is only told in the returned list, which is what a test of retries wants.
    """
    if await queue.is_paused():
        remedy = "Call `queue.resume()` before."
        raise BadArgument(argument="queue", value=queue.name, reason="it is paused, nothing would run", remedy=remedy)
    recorder = _Recorder(handler, worker_options.get("concurrency", 1))
    worker = worker_of(queue, recorder, {"concurrency": 1, **worker_options})
    looking = asyncio.Event()
    worker.settled.listen(lambda _: looking.set())
    clock = Clock(queue)
    async with inside(queue) as within, worker:
        try:
            async with asyncio.timeout(timeout_s):
                while not await _is_empty(within) or (with_delayed and await clock.turn_to_next()):
                    await _either(looking, _LOOK_EVERY_S)
        except TimeoutError:
            left = await queue.get_job_counts("waiting", "active", "delayed")
            told = ", ".join(f"{count} {state}" for state, count in left.items())
            raise DrainStuck(queue=queue.name, waited_s=timeout_s, ran=len(recorder.runs), left=told) from None
    if raise_errors:
        _raise_first(recorder.runs)
    return recorder.runs


class _Recorder:
    """The handler, with a record of its runs."""

    def __init__(self, handler: AnyHandler, threads: int) -> None:
        self._handler = as_handler(handler, threads)
        self.runs: list[Ran] = []

    async def __call__(self, job: Job) -> Any:
        try:
            value = await self._handler(job)
        except RateLimited as limited:
            self.runs.append(Ran(job, "parked", None, limited))
            raise
        except Exception as error:
            self.runs.append(Ran(job, "failed", None, error))
            raise
        self.runs.append(Ran(job, "done", value, None))
        return value

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        return lifespan_of(self._handler)


async def _is_empty(within: Inside) -> bool:
    """Whether nothing is waiting, running or due. All of one moment: a job on its way between two places is not missed."""
    keys, now = within.keys, await within.time_ms()
    counts = await within.together(
        ("XLEN", keys.stream),
        ("ZCARD", keys.lanes),
        *(("ZCOUNT", key, "-inf", now) for key in (keys.delayed, keys.repeat, keys.lanes_later)),
    )
    return not any(counts)


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):  # not wait_for: before Python 3.12 it swallows the end of the outer time
            await event.wait()
    except TimeoutError:
        return
    event.clear()


def _raise_first(runs: list[Ran]) -> None:
    failed = [run for run in runs if run.outcome == "failed"]
    if not failed:
        return
    first = failed[0]
    assert first.error is not None
    first.error.add_note(f"raised by job {first.job.name!r} ({first.job.id}) with data {first.job.data!r}")
    if len(failed) > 1:
        first.error.add_note(f"{len(failed) - 1} more of {len(runs)} runs failed; see them with raise_errors=False")
    raise first.error
