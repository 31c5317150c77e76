"""The cases, for libraries without an event loop: worker threads in this process, adds from the main thread.

Nobody of these can add a hundred at once on one connection, so that case is not asked of them.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from protocol import Asked, Measures, Stopwatch, answer, give_up, memory_mb, percentiles


class FailOnce(Exception):
    """What a handler raises at its first try in the retry storm."""


class ThreadedRival:
    """One library. Subclasses fill in the methods of the first part."""

    def __init__(self, asked: Asked) -> None:
        self.url = asked.url
        self.jobs = asked.jobs
        self.options = asked.options
        self.results: bool = asked.options.get("results", False)
        self.pause_s: float = asked.options.get("pause_s", 0)
        self.storm = asked.task == "retry_storm"
        self.task = asked.task
        self.watch = Stopwatch(asked.url)
        self.left = asked.jobs
        self.times: list[float] = []
        self.all_done = threading.Event()
        self.begin = threading.Event()
        # A hundred where handlers wait; eight where they do not, because more would only fight for the interpreter.
        self.threads = 100 if self.pause_s else 8
        self._lock = threading.Lock()
        self._failed: set[int] = set()

    # --- what a driver says ----------------------------------------------------------------------------------------

    def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        raise NotImplementedError

    def add_many(self, numbers: list[dict[str, Any]]) -> None:
        for data in numbers:
            self.add(data)

    def work(self) -> None:
        """Runs (or starts) a worker that calls `handle` for each job."""
        raise NotImplementedError

    # --- what is asked ---------------------------------------------------------------------------------------------

    def handle(self, data: dict[str, Any]) -> Any:
        """What every handler does: nothing, and tells when the last has done so."""
        if not self.watch.running:
            with self._lock:
                if not self.watch.running:
                    self.watch.start()
        if "t" in data:
            self.times.append(time.perf_counter() - data["t"])
        if self.pause_s:
            time.sleep(self.pause_s)
        with self._lock:
            if self.storm and data["i"] not in self._failed:
                self._failed.add(data["i"])
                raise FailOnce
            self.left -= 1
            if self.left == 0:
                self.all_done.set()
        return {"ok": True} if self.results else None

    def add_single(self) -> Measures:
        self.add({"i": -1})
        self.watch.start()
        for i in range(self.jobs):
            self.add({"i": i})
        return self.watch.stop(self.jobs)

    def add_bulk(self) -> Measures:
        size = self.options["size"]
        bulks = [[{"i": at + i} for i in range(size)] for at in range(0, self.jobs, size)]
        self.add({"i": -1})
        self.watch.start()
        for bulk in bulks:
            self.add_many(bulk)
        return self.watch.stop(len(bulks) * size)

    def drain(self) -> Measures:
        for at in range(0, self.jobs, 100):
            self.add_many([{"i": i} for i in range(at, min(at + 100, self.jobs))])
        self.begin.set()
        self.all_done.wait()
        return self.watch.stop(self.jobs)

    retry_storm = drain

    def delayed(self) -> Measures:
        """All due at the same moment; the time runs from that moment until the last has run."""
        due = time.time() + 1.0 + self.jobs / self.options.get("adds_per_s", 700)
        for i in range(self.jobs):
            self.add({"i": i}, max(0.0, due - time.time()))
        if time.time() > due:
            raise RuntimeError(f"adding {self.jobs} delayed jobs took longer than their delay")
        self.begin.set()
        time.sleep(max(0.0, due - time.time()))
        if not self.watch.running:
            self.watch.start()
        self.all_done.wait()
        return self.watch.stop(self.jobs)

    def latency(self) -> Measures:
        """From just before the add to the handler's start, at 200 jobs a second; before that, an idle worker's memory."""
        self.begin.set()
        time.sleep(1.0)
        idle_mb = memory_mb()
        started = time.perf_counter()
        for i in range(self.jobs):
            time.sleep(max(0.0, started + i / 200 - time.perf_counter()))
            self.add({"i": i, "t": time.perf_counter()})
        self.all_done.wait()
        return {**percentiles(self.times), "idle_mb": idle_mb}


def main(rival: type[ThreadedRival]) -> None:
    """The case runs in a thread and the worker in the main one, where some libraries insist to be: they set signals."""
    asked = Asked.read()
    contestant = rival(asked)

    def run() -> None:
        try:
            measures = getattr(contestant, asked.task)()
        except BaseException:  # noqa: BLE001
            give_up()
        answer(measures)

    threading.Thread(target=run, daemon=True).start()
    contestant.begin.wait()
    try:
        contestant.work()
    except BaseException:  # noqa: BLE001
        give_up()
    threading.Event().wait()
