"""The work room at its core, without HTTP: rates and CPU of publish, claim and settle on each store and claim path.

    python -m benchmarks.work_core                      # SQLite, PostgreSQL, MariaDB; with the servers of the tests
    python -m benchmarks.work_core --stores sqlite --growth 10000 100000 1000000

Idempotency keys, audit, outbox, tallies and the order index and wakes are on. CPU is this process's, in µs a message.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvloop
from sqlalchemy import insert

from relevo.api.service import prepare
from relevo.contract.messages import NewMessage, Published
from relevo.work.caller import PERMISSIONS, Caller
from relevo.work.message.verdict import SettleItem
from relevo.work.queue_record import QueueSettings
from relevo.work.store.tables import tenants
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer
from tests.servers.server import Redis86

SCOPE, QUEUE = "bench", "q"
BODY = msgspec.Raw(b'{"invoice":4711,"customer":"a customer of some length","lines":[1,2,3]}')


class DurablePostgres(PostgresServer):
    """With fsync, as in production."""

    def command(self) -> list[str]:
        return [*super().command(), "-c", "fsync=on"]


class DurableMariaDb(MariaDbServer):
    """With a flush at each commit, as in production."""

    def command(self) -> list[str]:
        return [*super().command(), "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=512M"]


class Measured(NamedTuple):
    """What one part took."""

    label: str
    items: int
    seconds: float
    cpu: float

    def __str__(self) -> str:
        rate, cpu = self.items / self.seconds, self.cpu / self.items * 1e6
        return f"  {self.label:<46} {rate:>10,.0f}/s {cpu:>9.1f} µs CPU each"


class Stopwatch:
    """Wall and CPU time of a block."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.count = 0

    def __enter__(self) -> Stopwatch:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        seconds, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        print(Measured(self.label, max(self.count, 1), seconds, cpu), flush=True)


@contextlib.asynccontextmanager
async def office_on(url: str, redis: str | None, path: str) -> AsyncGenerator[tuple[WorkQueues, Caller]]:
    settings = WorkSettings(database_url=url, redis_url=redis, claim_path=path)  # pyright: ignore[reportArgumentType]
    await prepare(url, upgrade=True)
    async with await WorkQueues.open(settings) as work_queues:
        async with work_queues.database.begin() as connection:
            row = {"slug": uuid.uuid4().hex[:12], "display_name": "bench", "state": "active", "created_at": 0}
            made = (await connection.execute(insert(tenants).values(row))).inserted_primary_key
            assert made is not None
        permissions = frozenset(PERMISSIONS)
        caller = Caller(tenant_id=made[0], actor="key:bench", permissions=permissions, request_id="bench")
        await work_queues.scopes.create(caller, SCOPE)
        await work_queues.queues.create(
            caller, SCOPE, QUEUE, QueueSettings(ordering="priority", visibility_timeout_s=3600)
        )
        yield work_queues, caller


def message(key: bool = True) -> NewMessage:
    return NewMessage(body=BODY, idempotency_key=uuid.uuid4().hex if key else None)


async def publish_singles(work_queues: WorkQueues, caller: Caller, *, tasks: int, each: int) -> None:
    async def one() -> None:
        for _ in range(each):
            (done,) = await work_queues.messages.publish(caller, SCOPE, QUEUE, [message()])
            assert isinstance(done, Published)

    with Stopwatch(f"single publish, {tasks} tasks") as watch:
        watch.count = tasks * each
        await asyncio.gather(*(one() for _ in range(tasks)))


async def publish_batches(work_queues: WorkQueues, caller: Caller, *, tasks: int, batches: int, size: int) -> None:
    async def one() -> None:
        for _ in range(batches):
            await work_queues.messages.publish(caller, SCOPE, QUEUE, [message() for _ in range(size)])

    with Stopwatch(f"batch {size}, {tasks} tasks") as watch:
        watch.count = tasks * batches * size
        await asyncio.gather(*(one() for _ in range(tasks)))


async def work_off(work_queues: WorkQueues, caller: Caller, *, tasks: int, size: int, at_most: int, label: str) -> None:
    left = at_most

    async def one() -> int:
        nonlocal left
        done = 0
        while left > 0:
            left -= size
            claimed = await work_queues.claims.claim(caller, SCOPE, QUEUE, batch_size=size)
            if not claimed:
                return done
            items = [SettleItem(id=each.id, claim_token=each.claim_token) for each in claimed]
            await work_queues.settlements.settle(caller, SCOPE, "complete", items, queue=QUEUE)
            done += len(claimed)
        return done

    with Stopwatch(label) as watch:
        watch.count = sum(await asyncio.gather(*(one() for _ in range(tasks))))


async def claim_only(work_queues: WorkQueues, caller: Caller, *, size: int, times: int, label: str) -> None:
    with Stopwatch(label) as watch:
        for _ in range(times):
            watch.count += len(await work_queues.claims.claim(caller, SCOPE, QUEUE, batch_size=size))


async def grow(work_queues: WorkQueues, caller: Caller, pending: int, target: int) -> None:
    while pending < target:
        count = min(20, -(-(target - pending) // 1000))
        await asyncio.gather(
            *(work_queues.messages.publish(caller, SCOPE, QUEUE, [message(key=False)] * 1000) for _ in range(count))
        )
        pending += count * 1000


async def measure(url: str, redis: str | None, path: str, options: argparse.Namespace) -> None:
    async with office_on(url, redis, path) as (work_queues, caller):
        await publish_singles(work_queues, caller, tasks=50, each=5)  # warm
        await publish_singles(work_queues, caller, tasks=50, each=options.each)
        for tasks in (1, 4):
            await publish_batches(work_queues, caller, tasks=tasks, batches=options.batches, size=500)
        for tasks in (1, 4):
            label = f"claim 50 + complete 50, {tasks} tasks"
            await work_off(work_queues, caller, tasks=tasks, size=50, at_most=options.batches * 1000, label=label)
        await work_off(work_queues, caller, tasks=50, size=1, at_most=2000, label="claim 1 + complete 1, 50 tasks")
        pending = 0
        for target in options.growth:
            await grow(work_queues, caller, pending, target)
            pending = target
            if path == "index":
                work_queues.ready_index.want((await work_queues.queues.lookup(caller, SCOPE, QUEUE)).id)
                await work_queues.ready_index.builder.built.wait_for(timeout=600)
            await claim_only(work_queues, caller, size=50, times=100, label=f"claim 50 at {target:,} pending")


@contextlib.contextmanager
def servers(stores: list[str]) -> Generator[dict[str, str]]:
    with contextlib.ExitStack() as stack:
        urls: dict[str, str] = {}
        if "sqlite" in stores:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="relevo-bench-"))
            urls["sqlite"] = f"sqlite:///{Path(folder) / 'work.db'}"
        if "postgresql" in stores:
            postgres = DurablePostgres()
            stack.callback(postgres.close)
            urls["postgresql"] = postgres.url("asyncpg")
        if "mariadb" in stores:
            mariadb = DurableMariaDb()
            stack.callback(mariadb.close)
            urls["mariadb"] = mariadb.url("asyncmy")
        redis = stack.enter_context(Redis86())
        urls["redis"] = redis.url
        yield urls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql", "mariadb"])
    parser.add_argument("--paths", nargs="+", default=["sql", "index"])
    parser.add_argument("--each", type=int, default=40, help="single publishes of each of 50 tasks")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--growth", type=int, nargs="*", default=[10_000, 100_000])
    options = parser.parse_args()
    with servers(options.stores) as urls:
        for store in options.stores:
            for path in options.paths:
                print(f"{store}, claims by {path}, with Redis")
                uvloop.run(measure(urls[store], urls["redis"], path, options))


if __name__ == "__main__":
    main()
