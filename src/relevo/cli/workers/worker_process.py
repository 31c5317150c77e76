"""One worker process: its queues, its limits, and how it ends. `relevo worker` runs one, or a supervisor of several."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from relevo.cli.workers.supervisor import RECYCLED
from relevo.cli.workers.target import describe, load_target
from relevo.cli.workers.worker_options import worker_arguments
from relevo.cli.workers.worker_spec import WorkerSpec
from relevo.engine.consuming.batch import Batch
from relevo.engine.consuming.handlers import lifespan_of
from relevo.engine.service.exit_signals import catch_exit_signals
from relevo.engine.settling.outcome_policy import Outcome
from relevo.engine.worker import Worker
from relevo.metrics.health_server import HealthServer
from relevo.metrics.metrics import Metrics

log = logging.getLogger("relevo.worker_process")

_LOOK_EVERY_S = 0.5
_MB = 1024 * 1024


class WorkerProcess:
    """The workers of one process, one for each queue. They share the handler and end together."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._handler = load_target(spec.target)
        self._workers: list[Worker] = []
        self._running: list[asyncio.Task[None]] = []
        self._left = spec.max_jobs
        self._recycled = False
        self._told = False

    async def work(self, *, until_stdin_ends: bool = False) -> int:
        """Works until it is told to end or has done its share; the exit code of the process."""
        spec = self._spec
        self._workers = [
            Worker(queue, self._handler, redis_url=spec.redis_url, **worker_arguments(spec.options))
            for queue in spec.queues
        ]
        for worker in self._workers:
            worker.policy.outcomes.listen(self._counted)
        restore = catch_exit_signals(self._signalled)
        try:
            async with AsyncExitStack() as stack:
                # Once for all queues, opened and closed by one and the same task: some resources insist on that.
                await stack.enter_async_context(lifespan_of(self._handler))
                if spec.metrics_port is not None:
                    await stack.enter_async_context(self._health_server(spec.metrics_port))
                for duty in self._duties(until_stdin_ends):
                    stack.callback(duty.cancel)
                self._running = [asyncio.ensure_future(self._run(worker)) for worker in self._workers]
                self._say_what_it_does()
                ends = await asyncio.gather(*self._running, return_exceptions=True)
        finally:
            restore()
        failed = [end for end in ends if isinstance(end, Exception)]
        for error in failed:
            log.error("a worker failed: %s: %s", type(error).__name__, error, exc_info=error)
        log.info("process %d shut down cleanly", os.getpid())
        return 1 if failed else RECYCLED if self._recycled else 0

    def _say_what_it_does(self) -> None:
        concurrency = int(self._spec.options["concurrency"])
        queues, what = ", ".join(self._spec.queues), describe(self._handler)
        uvloop = ", with uvloop" if _on_uvloop() else ""
        log.info("process %d works on %s for %s, %d at a time%s", os.getpid(), queues, what, concurrency, uvloop)
        if isinstance(self._handler, Batch) and self._handler.size > concurrency:
            advice = "a batch of %d never fills with --concurrency %d: raise --concurrency to the size of the batch"
            log.warning(advice, self._handler.size, concurrency)

    async def _run(self, worker: Worker) -> None:
        try:
            await worker.run(handle_signals=False)
        finally:
            self._close()  # one that cannot go on must not leave the others half alone: all end, and are started anew

    def _duties(self, until_stdin_ends: bool) -> list[asyncio.Task[None]]:
        duties: list[asyncio.Task[None]] = []
        if self._spec.max_rss_mb is not None:
            duties.append(asyncio.ensure_future(self._watch_memory(self._spec.max_rss_mb)))
        if until_stdin_ends:
            duties.append(asyncio.ensure_future(self._watch_stdin()))
        return duties

    def _health_server(self, port: int) -> HealthServer:
        metrics = Metrics()
        for worker in self._workers:
            metrics.watch(worker)
        return HealthServer(self._workers, port=port, host=self._spec.metrics_host, metrics=metrics)

    # --- when it ends --------------------------------------------------------------------------------------------------

    def _counted(self, _: Outcome) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._recycle(f"--max-jobs ({self._spec.max_jobs})")

    async def _watch_memory(self, most_mb: int) -> None:
        rss = 0
        while rss <= most_mb * _MB:
            await asyncio.sleep(_LOOK_EVERY_S)
            rss = resident_bytes()
        self._recycle(f"--max-rss ({most_mb} MB) with {rss // _MB} MB of memory")

    def _recycle(self, why: str) -> None:
        if not self._recycled:
            log.info(
                "process %d reached %s: finishing its running jobs, then a new process takes over", os.getpid(), why
            )
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

        threading.Thread(target=wait, name="relevo-supervisor-watch", daemon=True).start()
        await ended.wait()
        log.warning("process %d: its supervisor is gone; shutting down", os.getpid())
        self._close()

    def _signalled(self, name: str) -> None:
        if not self._told:
            self._told = True
            running = sum(len(worker.runner.running) for worker in self._workers)
            log.warning(
                "%s: reading no more jobs; waiting for %d running jobs (send it again to stop now)", name, running
            )
            self._recycled = False
            self._close()
        else:
            log.warning("%s again: stopping now", name)
            for task in self._running:
                task.cancel()

    def _close(self) -> None:
        for worker in self._workers:
            worker.close()


def run_worker_process(spec: WorkerSpec, *, supervised: bool = False) -> int:
    """Runs one process' work and ends it even when a handler's thread does not."""
    _show_prints_at_once()
    process = WorkerProcess(spec)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(process.work(until_stdin_ends=supervised))
    busy = _busy_threads()
    if busy:
        # Python would wait for them for ever; their jobs were handed back, and what they still do no longer counts.
        log.warning("process %d exits while these threads are still running: %s", os.getpid(), ", ".join(busy))
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
