"""Drives huey on Redis: its consumer, with threads, in this process."""

from __future__ import annotations

import logging
from typing import Any

from huey import RedisHuey
from huey.consumer import Consumer
from protocol import Asked
from threaded_rival import ThreadedRival, main

logging.disable()


class HueyRival(ThreadedRival):
    """Blocking pops, no periodic tasks."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.huey = RedisHuey("bench", url=self.url, results=self.results, blocking=True)

        def noop(data: dict[str, Any]) -> Any:
            return self.handle(data)

        self.noop = self.huey.task(retries=1 if self.storm else 0, name="noop")(noop)

    def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        return self.noop(data) if delay_s is None else self.noop.schedule((data,), delay=delay_s)

    def work(self) -> None:
        # Looks for due tasks ten times a second: the shortest interval it takes.
        Consumer(self.huey, workers=self.threads, periodic=False, worker_type="thread", scheduler_interval=0.1).run()


if __name__ == "__main__":
    main(HueyRival)
