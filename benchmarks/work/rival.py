"""Drives one rival on PostgreSQL by its own public API. Called as `rival.py NAME` in the rival's own environment; reads one
JSON object (dsn, case, count, size, tasks, body_bytes) from standard input and prints one."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

TASKS = 50


async def spread(count: int, tasks: int, one: Callable[[int], Awaitable[Any]], step: int = 1) -> float:
    """`one(first)` for every step, by so many tasks at once; the rate of items."""
    done = 0

    async def work() -> None:
        nonlocal done
        while done < count:
            first, done = done, done + step
            await one(first)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return done / (time.perf_counter() - began)


def fill(asked: dict[str, Any]) -> dict[str, str]:
    """What makes a body as long as it is wanted."""
    missing = asked["body_bytes"] - len('{"i":1234567,"text":""}')
    return {"text": "x" * missing} if missing > 0 else {}


async def procrastinate(asked: dict[str, Any]) -> float:
    import procrastinate as library  # pyright: ignore[reportMissingImports]

    connector = library.PsycopgConnector(conninfo=asked["dsn"], min_size=10, max_size=TASKS)
    app = library.App(connector=connector)
    left, all_done, text = asked["count"], asyncio.Event(), fill(asked)

    @app.task(name="noop")
    async def noop(i: int, text: str = "") -> None:  # noqa: ARG001 - its job's arguments
        nonlocal left
        left -= 1
        if left == 0:
            all_done.set()

    async with app.open_async():
        if asked["case"] == "install":
            await app.schema_manager.apply_schema_async()
            return 0.0
        if asked["case"] == "single":
            return await spread(asked["count"], TASKS, lambda n: noop.defer_async(i=n))
        if asked["case"] == "batch":
            size = asked["size"]
            return await spread(
                asked["count"],
                asked["tasks"],
                lambda n: noop.batch_defer_async(*({"i": n + k, **text} for k in range(size))),
                size,
            )
        began = time.perf_counter()
        await app.run_worker_async(concurrency=TASKS, wait=False, install_signal_handlers=False, listen_notify=False)
        return asked["count"] / (time.perf_counter() - began)


async def pgqueuer(asked: dict[str, Any]) -> float:
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]
    from pgqueuer import AsyncpgPoolDriver, Queries, QueueManager  # pyright: ignore[reportMissingImports]
    from pgqueuer.types import QueueExecutionMode  # pyright: ignore[reportMissingImports]

    async with asyncpg.create_pool(asked["dsn"], min_size=10, max_size=TASKS) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        size = asked.get("size", 1)
        if asked["case"] == "install":
            await queries.install()
            return 0.0
        if asked["case"] == "single":
            return await spread(asked["count"], TASKS, lambda n: queries.enqueue("noop", b'{"i":%d}' % n))
        if asked["case"] == "batch":
            names, priorities = ["noop"] * size, [0] * size
            body = json.dumps({"i": -1, **fill(asked)}).replace("-1", "%d", 1).encode()

            async def many(first: int) -> None:
                await queries.enqueue(names, [body % (first + k) for k in range(size)], priorities)

            return await spread(asked["count"], asked["tasks"], many, size)
        manager = QueueManager(queries)

        @manager.entrypoint("noop")
        async def noop(_: Any) -> None: ...

        began = time.perf_counter()
        await manager.run(batch_size=size, mode=QueueExecutionMode.drain)
        return asked["count"] / (time.perf_counter() - began)


async def oban(asked: dict[str, Any]) -> float:
    from oban import Oban, worker  # pyright: ignore[reportMissingImports]
    from oban.schema import install  # pyright: ignore[reportMissingImports]

    left, all_done = asked["count"], asyncio.Event()

    @worker(queue="default")
    class Noop:
        async def process(self, _: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                all_done.set()

    pool = await Oban.create_pool(asked["dsn"], min_size=10, max_size=TASKS)
    try:
        if asked["case"] == "install":
            await install(pool)
            return 0.0
        if asked["case"] == "drain":
            began = time.perf_counter()
            async with Oban(pool=pool, queues={"default": 100}):
                await all_done.wait()
                return asked["count"] / (time.perf_counter() - began)
        client = Oban(pool=pool)
        if asked["case"] == "single":
            return await spread(asked["count"], TASKS, lambda n: client.enqueue(Noop.new({"i": n})))
        size, text = asked["size"], fill(asked)
        return await spread(
            asked["count"],
            asked["tasks"],
            lambda n: client.enqueue_many([Noop.new({"i": n + k, **text}) for k in range(size)]),
            size,
        )
    finally:
        await pool.close()


async def plain(asked: dict[str, Any]) -> float:
    """What SQL can do with nothing on top: one table, one index, SKIP LOCKED. The ceiling, no rival."""
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]

    async with asyncpg.create_pool(asked["dsn"], min_size=10, max_size=TASKS) as pool:
        if asked["case"] == "install":
            await pool.execute(
                "CREATE TABLE plain (id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'pending', body text NOT NULL)"
            )
            await pool.execute("CREATE INDEX plain_order ON plain (state, id)")
            return 0.0
        insert = "INSERT INTO plain (body) SELECT unnest($1::text[])"
        size = asked.get("size", 1)
        if asked["case"] in ("single", "batch"):
            tasks = TASKS if asked["case"] == "single" else asked["tasks"]

            body = json.dumps({"i": -1, **fill(asked)}).replace("-1", "%d", 1)

            async def add(first: int) -> None:
                await pool.execute(insert, [body % (first + k) for k in range(size)])

            return await spread(asked["count"], tasks, add, size)
        await pool.execute("ANALYZE plain")
        claim = (
            "UPDATE plain SET state = 'claimed' WHERE id IN (SELECT id FROM plain WHERE state = 'pending' ORDER BY id LIMIT $1"
            " FOR UPDATE SKIP LOCKED) RETURNING id, body"
        )

        async def take(_: int) -> None:
            ids = [row["id"] for row in await pool.fetch(claim, size)]
            await pool.execute("UPDATE plain SET state = 'completed' WHERE id = ANY($1)", ids)

        return await spread(asked["count"], 4, take, size)


def main() -> None:
    rival = {"procrastinate": procrastinate, "pgqueuer": pgqueuer, "oban": oban, "plain SQL": plain}[sys.argv[1]]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print("\n" + json.dumps({"rate": runner.run(rival(json.load(sys.stdin)))}))


if __name__ == "__main__":
    main()
