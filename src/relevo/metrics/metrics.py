"""The numbers of a process for Prometheus; see docs/how-to/observe.md for what each of them is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from relevo.arguments import seconds
from relevo.engine.duties.standalone import PromoterProcess, Scheduler
from relevo.engine.queue import Queue
from relevo.engine.worker import Worker
from relevo.errors import DependencyMissing, WrongType
from relevo.metrics.backlog_watch import BacklogWatch
from relevo.metrics.instruments import Instruments
from relevo.metrics.job_names import JobNames
from relevo.metrics.worker_watch import DutyWatch, WorkerWatch
from relevo.wire.keys import QueueKeys

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts what workers do.

        metrics = Metrics()
        metrics.watch(worker)
        print(metrics.text().decode())

    It is a collector of prometheus_client: `prometheus_client.REGISTRY.register(metrics)` adds it to what a program shows
    already. Names of jobs are labels, `name_limit` of them for each queue; what comes later is counted as "other". Every
    `backlog_every_s` seconds a watched worker looks at its queue as a whole.
    """

    def __init__(self, *, name_limit: int = 100, backlog_every_s: float = 5.0) -> None:
        try:
            import prometheus_client  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError as error:
            raise DependencyMissing(what="Metrics", package="prometheus-client", extra="relevo[metrics]") from error
        self.instruments: Instruments = Instruments()
        self._name_limit = name_limit
        self._backlog_every_s = seconds("backlog_every_s", backlog_every_s)
        self._names: dict[str, JobNames] = {}
        self._watches: list[WorkerWatch] = []
        made = self.instruments
        self._of_workers = (made.running, made.held, made.can_claim, made.paused)
        JobNames(name_limit)  # refuses a wrong limit here and not at the first job

    def watch(self, subject: Worker | Scheduler | PromoterProcess) -> Callable[[], None]:
        """Listens to it from now on, best before it runs; the returned function ends that."""
        if not isinstance(subject, Worker | Scheduler | PromoterProcess):  # pyright: ignore[reportUnnecessaryIsInstance]
            expected, remedy = "Worker, Scheduler or PromoterProcess", "Watch one after the other."
            raise WrongType(argument="subject", value=subject, expected=expected, remedy=remedy)
        queue = subject.name
        if not isinstance(subject, Worker):
            duty = DutyWatch(self.instruments, queue)
            if isinstance(subject, Scheduler):
                duty.scheduling(subject.fired, subject.leading)
            else:
                duty.promoting(subject.promoted, subject.leading)
            return duty.stop
        names = self._names.setdefault(queue, JobNames(self._name_limit))
        watch = WorkerWatch(self.instruments, names, subject)
        self._watches.append(watch)
        every = self._backlog_every_s
        subject.take_on(
            lambda link, keys, group: BacklogWatch(lambda: link, keys, group, self.instruments, every=every)
        )

        def stop() -> None:
            watch.stop()
            if watch in self._watches:
                self._watches.remove(watch)
            for gauge in self._of_workers:
                gauge.set(None, queue)  # set again at the next look where another worker of the queue is watched

        return stop

    def watch_queue(self, queue: Queue) -> BacklogWatch:
        """Looks at a queue from a process that need not work for it (a queue scaled down to nothing has no worker to tell its
        backlog). `start()` it on a running loop, and `await stop()` it before the queue is closed."""
        return BacklogWatch(
            queue._admin_link,  # pyright: ignore[reportPrivateUsage]
            QueueKeys(queue.name),
            queue._group,  # pyright: ignore[reportPrivateUsage]
            self.instruments,
            every=self._backlog_every_s,
        )

    def collect(self) -> Iterable[Metric]:
        """The families, for prometheus_client; may be called from any thread."""
        self._look_at_workers()
        return [instrument.family() for instrument in self.instruments]

    def text(self) -> bytes:
        """All numbers in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def _look_at_workers(self) -> None:
        sums: dict[str, list[float]] = {}
        for watch in list(self._watches):
            health = watch.worker.health()
            now = (health.running, health.held, health.can_claim, health.paused)
            sums[watch.queue] = [a + b for a, b in zip(sums.get(watch.queue, [0, 0, 0, 0]), now, strict=True)]
        for queue, values in sums.items():
            for gauge, value in zip(self._of_workers, values, strict=True):
                gauge.set(value, queue)
