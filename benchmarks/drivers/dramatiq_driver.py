"""Drives dramatiq on Redis: worker threads in this process."""

from __future__ import annotations

import logging
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from protocol import Asked
from threaded_rival import ThreadedRival, main

logging.disable()


class DramatiqRival(ThreadedRival):
    """Its worker does not block; retries wait one millisecond instead of fifteen seconds."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        broker = RedisBroker(url=self.url)
        options: dict[str, Any] = {}
        if self.results:
            broker.add_middleware(Results(backend=RedisBackend(url=self.url)))
            options = {"store_results": True, "result_ttl": 3_600_000}
        dramatiq.set_broker(broker)

        def noop(data: dict[str, Any]) -> Any:
            return self.handle(data)

        self.noop = dramatiq.actor(noop, max_retries=3, min_backoff=1, max_backoff=1, **options)
        self.broker = broker

    def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        if delay_s is None:
            return self.noop.send(data)
        return self.noop.send_with_options(args=(data,), delay=int(delay_s * 1000))

    def work(self) -> None:
        dramatiq.Worker(self.broker, worker_threads=self.threads, worker_timeout=100).start()


if __name__ == "__main__":
    main(DramatiqRival)
