"""Drives celery on Redis, with its thread pool, so that it runs in one process like the others."""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery
from protocol import Asked
from threaded_rival import FailOnce, ThreadedRival, main

logging.disable()


class CeleryRival(ThreadedRival):
    """Acks, prefetching and gossip as is best for many small tasks."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.app = Celery("bench", broker=self.url, backend=self.url if self.results else None)
        self.app.conf.update(
            task_ignore_result=not self.results,
            worker_prefetch_multiplier=50,
            worker_send_task_events=False,
            worker_enable_remote_control=False,
            broker_connection_retry_on_startup=True,
            worker_hijack_root_logger=False,
            worker_redirect_stdouts=False,
            broker_transport_options={"visibility_timeout": 3600},
        )

        @self.app.task(bind=True, name="noop", max_retries=3)
        def noop(task: Any, data: dict[str, Any]) -> Any:
            try:
                return self.handle(data)
            except FailOnce as once:
                raise task.retry(exc=once, countdown=0) from None

        self.noop = noop

    def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        return self.noop.apply_async((data,), countdown=delay_s)

    def work(self) -> None:
        self.app.Worker(
            pool="threads",
            concurrency=self.threads,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
        ).start()


if __name__ == "__main__":
    main(CeleryRival)
