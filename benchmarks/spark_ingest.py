"""`python -m benchmarks.spark_ingest`: what Spark reads and writes, beside what two plain processes read from the same Redis.

Everything in one run on one machine, in interleaved rounds, so that the ratios mean something: raw reading (two processes, a
socket and hiredis each, nothing kept), batch ingest to Parquet, streaming ingest (AvailableNow, 500k rows a trigger), our own
bulk add, and the sink. The goals are those of the data pipeline's issue.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relevo import Queue
from relevo.broker.address import Address
from relevo.pipeline.connector.connection import Connection, pack
from relevo.pipeline.connector.offsets import NOTHING
from relevo.pipeline.connector.ranks import sampled_cuts
from relevo.pipeline.connector.streams import states
from relevo.pipeline.session import session
from relevo.wire.events import EventFields
from relevo.wire.keys import QueueKeys
from tests.servers.server import Redis86
from tests.spark.connector.filled import directory_of

QUEUE = "bench"
GOALS = {
    "batch ingest": ("raw reading", 0.60),
    "streaming ingest": ("raw reading", 0.45),
    "sink": ("bulk add", 0.60),
}


def main() -> None:
    asked = _arguments()
    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="relevo-bench-"))
    with Redis86(settings={"save": "", "maxmemory": "0"}) as server:
        bench = Bench(server.url, asked.events, asked.jobs, folder)
        try:
            console.print(f"{asked.events:,} events, {asked.jobs:,} jobs, {asked.rounds} rounds")
            bench.fill()
            rates = bench.run(asked.rounds)
        finally:
            bench.close()
            shutil.rmtree(folder, ignore_errors=True)
    show(console, rates)
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"events": asked.events, "jobs": asked.jobs, "rates": rates}, indent=1))


class Bench:
    """The cases; each gives the rate of one round."""

    def __init__(self, url: str, events: int, jobs: int, folder: Path) -> None:
        self._url = url
        self._events = events
        self._jobs = jobs
        self._folder = folder
        self._spark: Any = None
        self._number = 0

    def fill(self) -> None:
        fill(self._url, QUEUE, self._events)
        fill(self._url, "warm", 20_000)

    def run(self, rounds: int) -> dict[str, list[float]]:
        cases: dict[str, Callable[[], float]] = {
            "raw reading": self.raw_reading,
            "batch ingest": self.batch_ingest,
            "streaming ingest": self.streaming_ingest,
            "bulk add": self.bulk_add,
            "sink": self.sink,
        }
        self._spark = session("local[2]", log=self._folder / "spark.log")
        self._warm()
        rates: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, case in cases.items():
                rates[name].append(round(case()))
        return rates

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()

    def _warm(self) -> None:
        self._ingest("warm")
        self._rows(1000).write.format("relevo").options(url=self._url, queue="warm").mode("append").save()

    def raw_reading(self) -> float:
        key = QueueKeys(QUEUE).events
        directory = directory_of(self._url)
        (state,) = states(directory, [key.decode()])
        (middle,) = sampled_cuts(directory, key, NOTHING, state.last, 2)
        directory.close()
        context = multiprocessing.get_context("spawn")
        with context.Pool(2) as pool:
            pool.starmap(read_raw, [(self._url, "-", "0-1"), (self._url, "-", "0-1")])  # both are there and warm
            began = time.perf_counter()
            counts = pool.starmap(
                read_raw, [(self._url, "-", str(middle)), (self._url, f"({middle}", "+")], chunksize=1
            )
            took = time.perf_counter() - began
        assert sum(counts) == self._events
        return self._events / took

    def batch_ingest(self) -> float:
        began = time.perf_counter()
        table = self._ingest(QUEUE)
        took = time.perf_counter() - began
        assert self._spark.read.parquet(table).count() == self._events
        shutil.rmtree(table)
        return self._events / took

    def _ingest(self, queue: str) -> str:
        table = self._place("table")
        self._spark.read.format("relevo").options(url=self._url, queues=queue).load().write.parquet(table)
        return table

    def streaming_ingest(self) -> float:
        table, checkpoint = self._place("table"), self._place("checkpoint")
        source = self._spark.readStream.format("relevo").options(
            url=self._url, queues=QUEUE, maxRowsPerTrigger="500000"
        )
        began = time.perf_counter()
        writer = source.load().writeStream.format("parquet").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(table).awaitTermination()
        took = time.perf_counter() - began
        assert self._spark.read.parquet(table).count() == self._events
        shutil.rmtree(table)
        return self._events / took

    def bulk_add(self) -> float:
        return asyncio.run(bulk_add(self._url, self._jobs))

    def sink(self) -> float:
        queue = f"sink-{self._number}"
        rows = self._rows(self._jobs).cache()
        rows.count()
        began = time.perf_counter()
        writer = rows.write.format("relevo").options(url=self._url, queue=queue, maxStreamLen="100000000")
        writer.mode("append").save()
        took = time.perf_counter() - began
        rows.unpersist()
        assert _length(self._url, queue) == self._jobs
        _drop(self._url, queue)
        self._number += 1
        return self._jobs / took

    def _rows(self, count: int) -> Any:
        return self._spark.range(0, count, 1, 2).selectExpr(
            "'mail' as name", """concat('{"to":"user-', id, '","n":', id, '}') as data"""
        )

    def _place(self, name: str) -> str:
        self._number += 1
        return str(self._folder / f"{name}-{self._number}")


def read_raw(url: str, start: str, end: str) -> int:
    """Reads a range with a socket and hiredis, and keeps nothing."""
    address = Address.parse(url)
    connection = Connection(address, address.nodes[0], timeout_s=30)
    key, count = QueueKeys(QUEUE).events, 0
    while True:
        connection.send(pack(("XRANGE", key, start, end, "COUNT", 1000)))
        page = connection.read()
        count += len(page)
        if len(page) < 1000:
            connection.close()
            return count
        start = "(" + page[-1][0].decode()


def fill(url: str, queue: str, count: int) -> None:
    """Events as a busy queue writes them: runs that begin and end, a few failures, a few promotions."""
    key = QueueKeys(queue).events
    address = Address.parse(url)
    connection = Connection(address, address.nodes[0], timeout_s=60)
    for first in range(0, count, 2000):
        commands: list[bytes] = []
        for number in range(first, min(first + 2000, count)):
            fields = _event(number).encode()
            commands.append(pack(("XADD", key, "*", *fields)))
        connection.send(b"".join(commands))
        for _ in commands:
            connection.read()
    connection.close()


def _event(number: int) -> EventFields:
    job, now = f"01J9ZQ6XN0{number // 2:016d}", 1_790_000_000_000 + number // 50
    if number % 2 == 0:
        return EventFields("active", job, now, "mail", {"attempt": 1})
    if number % 41 == 0:
        return EventFields("failed", job, now, "mail", {"attempt": 1, "reason": "timed out", "duration_us": 30_000_000})
    return EventFields("completed", job, now, "mail", {"attempt": 1, "duration_us": 1000 + number % 977})


async def bulk_add(url: str, count: int) -> float:
    async with Queue("added", redis_url=url, max_stream_len=100_000_000) as queue:
        jobs = [{"name": "mail", "data": {"to": f"user-{number}", "n": number}} for number in range(count)]
        began = time.perf_counter()
        for first in range(0, count, 10_000):
            await queue.add_bulk(jobs[first : first + 10_000])
        took = time.perf_counter() - began
    _drop(url, "added")
    return count / took


def _length(url: str, queue: str) -> int:
    address = Address.parse(url)
    connection = Connection(address, address.nodes[0], timeout_s=30)
    length = connection.call("XLEN", QueueKeys(queue).stream)
    connection.close()
    return int(length)


def _drop(url: str, queue: str) -> None:
    address = Address.parse(url)
    connection = Connection(address, address.nodes[0], timeout_s=60)
    connection.call("DEL", QueueKeys(queue).stream)
    connection.close()


def show(console: Console, rates: dict[str, list[float]]) -> None:
    table = Table("", "rows a second (median)", "goal", "ratio", title="Spark beside plain processes")
    for name, found in rates.items():
        base, wanted = GOALS.get(name, ("", 0.0))
        ratio = statistics.median(found) / statistics.median(rates[base]) if base else 0.0
        verdict = f"{ratio:.2f} {'[green]met[/]' if ratio >= wanted else '[red]missed[/]'}" if base else ""
        table.add_row(name, f"{statistics.median(found):,.0f}", f"{wanted:.2f} of {base}" if base else "", verdict)
    console.print(table)


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--jobs", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
