"""Drives rq with its SimpleWorker, which runs jobs in its own process one after the other: the fastest of its workers by
far, because the others start a process for each job. Its delays need a scheduler process, so that is not asked.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from protocol import Asked
from redis import Redis
from rq import Queue, Retry, SimpleWorker
from threaded_rival import ThreadedRival, main

logging.disable()


class RqRival(ThreadedRival):
    """Jobs name their function by module, so the contestant of this process is kept where `noop` finds it."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.connection = Redis.from_url(self.url)
        self.queue = Queue("bench", connection=self.connection)
        self.how: dict[str, Any] = {"result_ttl": 3600 if self.results else 0}
        if self.storm:
            self.how["retry"] = Retry(max=1)
        noop.contestant = self

    def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        assert delay_s is None
        return self.queue.enqueue("rq_driver.noop", data, **self.how)

    def add_many(self, numbers: list[dict[str, Any]]) -> None:
        self.queue.enqueue_many([Queue.prepare_data("rq_driver.noop", (data,), **self.how) for data in numbers])

    def work(self) -> None:
        SimpleWorker([self.queue], connection=self.connection).work(logging_level="CRITICAL")


def noop(data: dict[str, Any]) -> Any:
    return noop.contestant.handle(data)


if __name__ == "__main__":
    # The name under which rq looks for the function: this very module, not a second copy of it.
    sys.modules["rq_driver"] = sys.modules["__main__"]
    main(RqRival)
