"""One worker process: its queues, its limits, and how it ends. `relevo worker` runs one, or a crew of them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from relevo.cli.target import describe, load_target
from relevo.engine.consuming.batch import Batch
from relevo.engine.consuming.handlers import lifespan_of
from relevo.engine.service.exit_signals import catch_exit_signals
from relevo.engine.settling.bad_result import OnBadResult
from relevo.engine.settling.outcome_policy import Outcome
from relevo.engine.worker import Worker
from relevo.metrics.health_server import HealthServer
from relevo.metrics.metrics import Metrics

log = logging.getLogger("relevo.shift")

RECYCLED = 75
"""How a process of a crew ends when it has done its share: to be replaced, and not to be worried about."""

_LOOK_EVERY_S = 0.5
_MB = 1024 * 1024


@dataclass(frozen=True)
class Orders:
    """What a worker process is to do; travels to the processes of a crew as JSON.

    >>> Orders.read(Orders("app:tasks", ("emails",), "redis://127.0.0.1:6379").written).queues
    ('emails',)
    """

    target: str
    queues: tuple[str, ...]
    redis_url: str
    concurrency: int = 100
    max_attempts: int = 25
    idle_ms: int | None = None
    store_results: bool = False
    on_bad_result: OnBadResult = "drop"
    unknown_task_wait_s: float = 600.0
    shutdown_s: float = 30.0
    max_jobs: int | None = None
    max_rss_mb: int | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    log_level: str = "INFO"
    json_logs: bool = False

    @property
    def written(self) -> str:
        return json.dumps(asdict(self))

    def at_place(self, number: int) -> Orders:
        """The same for one process of a crew, counted from 1: each answers on a port of its own, one after the other."""
        shared = self.metrics_port or None  # 0 finds a free one for each
        return self if shared is None else replace(self, metrics_port=shared + number - 1)

    @staticmethod
    def read(text: str) -> Orders:
        orders = Orders(**json.loads(text))
        return replace(orders, queues=tuple(orders.queues))


class Shift:
    """The workers of one process, one for each queue. They share the handler and end together."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._handler = load_target(orders.target)
        self._workers: list[Worker] = []
        self._running: list[asyncio.Task[None]] = []
        self._left = orders.max_jobs
        self._recycled = False
        self._told = False

    async def work(self, *, until_stdin_ends: bool = False) -> int:
        """Works until it is told to end or has done its share; the exit code of the process."""
        orders = self._orders
        self._workers = [
            Worker(
                queue,
                self._handler,
                redis_url=orders.redis_url,
                concurrency=orders.concurrency,
                max_attempts=orders.max_attempts,
                claim_min_idle_ms=orders.idle_ms,
                store_results=orders.store_results,
                on_bad_result=orders.on_bad_result,
                unknown_task_wait_s=orders.unknown_task_wait_s,
                shutdown_deadline_s=orders.shutdown_s,
            )
            for queue in orders.queues
        ]
        for worker in self._workers:
            worker.policy.outcomes.listen(self._counted)
        restore = catch_exit_signals(self._signalled)
        try:
            async with AsyncExitStack() as stack:
                # Once for all queues, opened and closed by one and the same task: some resources insist on that.
                await stack.enter_async_context(lifespan_of(self._handler))
                if orders.metrics_port is not None:
                    await stack.enter_async_context(self._health_server(orders.metrics_port))
                for duty in self._duties(until_stdin_ends):
                    stack.callback(duty.cancel)
                self._running = [asyncio.ensure_future(self._run(worker)) for worker in self._workers]
                log.info(
                    "process %d works on %s for %s, %d at a time%s",
                    os.getpid(),
                    ", ".join(orders.queues),
                    describe(self._handler),
                    orders.concurrency,
                    ", with uvloop" if _on_uvloop() else "",
                )
                if isinstance(self._handler, Batch) and self._handler.size > orders.concurrency:
                    log.warning(
                        "a batch of %d never fills up with --concurrency %d: raise it to the size of the batch",
                        self._handler.size,
                        orders.concurrency,
                    )
                ends = await asyncio.gather(*self._running, return_exceptions=True)
        finally:
            restore()
        failed = [end for end in ends if isinstance(end, Exception)]
        for error in failed:
            log.error("a worker ended by itself: %s: %s", type(error).__name__, error, exc_info=error)
        log.info("process %d has left in order", os.getpid())
        return 1 if failed else RECYCLED if self._recycled else 0

    async def _run(self, worker: Worker) -> None:
        try:
            await worker.run(handle_signals=False)
        finally:
            self._close()  # one that cannot go on must not leave the others half alone: all end, and are started anew

    def _duties(self, until_stdin_ends: bool) -> list[asyncio.Task[None]]:
        duties: list[asyncio.Task[None]] = []
        if self._orders.max_rss_mb is not None:
            duties.append(asyncio.ensure_future(self._watch_memory(self._orders.max_rss_mb)))
        if until_stdin_ends:
            duties.append(asyncio.ensure_future(self._watch_stdin()))
        return duties

    def _health_server(self, port: int) -> HealthServer:
        metrics = Metrics()
        for worker in self._workers:
            metrics.watch(worker)
        return HealthServer(self._workers, port=port, host=self._orders.metrics_host, metrics=metrics)

    # --- when it ends --------------------------------------------------------------------------------------------------

    def _counted(self, _: Outcome) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._recycle(f"{self._orders.max_jobs} jobs")

    async def _watch_memory(self, most_mb: int) -> None:
        rss = 0
        while rss <= most_mb * _MB:
            await asyncio.sleep(_LOOK_EVERY_S)
            rss = resident_bytes()
        self._recycle(f"{rss // _MB} MB of memory")

    def _recycle(self, why: str) -> None:
        if not self._recycled:
            log.info("process %d has had %s: it finishes what runs and makes room for a new one", os.getpid(), why)
            self._recycled = True
            self._close()

    async def _watch_stdin(self) -> None:
        """A thread waits for the end of stdin; a daemon, because nothing can wake it."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def wait() -> None:
            while os.read(0, 1024):
                pass
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=wait, name="relevo-crew-watch", daemon=True).start()
        await ended.wait()
        log.warning("process %d: the process that started it is gone; leaving in order", os.getpid())
        self._close()

    def _signalled(self, name: str) -> None:
        if not self._told:
            self._told = True
            running = sum(len(worker.runner.running) for worker in self._workers)
            log.warning("%s: no more reading; %d running jobs may finish (again to stop now)", name, running)
            self._recycled = False
            self._close()
        else:
            log.warning("%s again: stopping now", name)
            for task in self._running:
                task.cancel()

    def _close(self) -> None:
        for worker in self._workers:
            worker.close()


def run_shift(orders: Orders, *, of_a_crew: bool = False) -> int:
    """Runs one process' work and ends it even when a handler's thread does not."""
    _show_prints_at_once()
    shift = Shift(orders)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(shift.work(until_stdin_ends=of_a_crew))
    busy = _busy_threads()
    if busy:
        # Python would wait for them for ever; their jobs were handed back, and what they still do no longer counts.
        log.warning("process %d ends with threads that do not: %s", os.getpid(), ", ".join(busy))
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    return code


def _show_prints_at_once() -> None:
    """What handlers print into a pipe or a container's log is there line by line, not whenever a buffer is full."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(line_buffering=True)


def _busy_threads() -> list[str]:
    alive: list[str] = []
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(0.2)
            if thread.is_alive():
                alive.append(thread.name)
    return alive


def resident_bytes() -> int:
    """The memory this process holds now; where only its highest is known, that."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _on_uvloop() -> bool:
    return type(asyncio.get_running_loop()).__module__.startswith("uvloop")
