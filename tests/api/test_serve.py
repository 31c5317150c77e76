"""`relevo serve` as a process: it ends in order, and a kill -9 under load loses nothing that was acknowledged."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from relevo.client import AsyncClient, Claimed, Consumer
from relevo.errors import RelevoError
from tests.pace import limit
from tests.patience import until
from tests.servers.child import Child
from tests.servers.postgres import PostgresServer
from tests.support.serve_process import RELEVO, ServeProcess, first_key, sqlite_in


@pytest.fixture
def serve(tmp_path: Path) -> Generator[ServeProcess]:
    started = ServeProcess(sqlite_in(tmp_path))
    yield started
    started.close()


async def test_sigterm_answers_waiting_claims_at_once_and_ends_in_order(serve: ServeProcess) -> None:
    async with AsyncClient(serve.url, key=serve.key) as client:
        await client.create_scope("s")
        await client.create_queue("s", "q")
        waiting = [asyncio.create_task(client.claim("s", "q", wait_s=50)) for _ in range(3)]

        async def all_three_wait() -> bool:
            return "relevo_work_long_polls 3.0" in await _metrics(serve)

        await until(all_three_wait)
        ending = asyncio.create_task(asyncio.to_thread(serve.end))
        async with asyncio.timeout(limit(30)):
            assert await asyncio.gather(*waiting) == [[], [], []]
            code, said = await ending
    assert code == 0
    assert "Traceback" not in said


def test_a_database_without_tables_is_refused_with_the_remedy(postgres: PostgresServer) -> None:
    postgres.create("untouched")
    url = postgres.url("asyncpg", "untouched")
    done = Child.run(*RELEVO, "serve", "--database-url", url, "--port", "0")
    assert done.code == 1
    assert "relevo db upgrade" in done.err
    assert "Traceback" not in done.err


def test_an_address_nobody_knows_is_refused_without_its_password() -> None:
    url = "oracle://me:hunter2@host/db"
    done = Child.run(*RELEVO, "serve", "--database-url", url)
    assert done.code == 1
    assert "hunter2" not in done.err + done.out
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", ["serve", "agents"])
def test_a_database_that_does_not_answer_is_one_line_without_its_password(command: str) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/db"
    done = Child.run(*RELEVO, command, "--database-url", url)
    assert done.code == 1
    assert "The database does not answer" in done.err
    assert "hunter2" not in done.err + done.out
    assert "Traceback" not in done.err


@pytest.mark.timeout(180)
async def test_several_processes_share_a_port_and_what_dies_is_started_again(postgres: PostgresServer) -> None:
    postgres.create("several")
    url = postgres.url("asyncpg", "several")
    serve = ServeProcess(url, "--processes", "2", key=first_key(url))
    try:
        async with AsyncClient(serve.url, key=serve.key, retry_s=60) as client:
            await client.create_scope("s")
            await client.create_queue("s", "q")
            for n in range(20):
                await client.publish("s", "q", n)
            assert "relevo_work_published_total 20.0" in await _metrics(serve)  # the sum of both, whoever answers
            victim, other = _processes_of(serve)
            os.kill(victim, signal.SIGKILL)
            await asyncio.to_thread(serve.child.wait_for, r"child \d was killed by SIGKILL; restarting it in 0\.5 s")
            await until(lambda: len(set(_processes_of(serve)) - {victim, other}) == 1)
            assert (await client.publish("s", "q", 20)).state == "pending"
        code, said = await asyncio.to_thread(serve.end)
    finally:
        serve.close()
    assert code == 0, said


def _processes_of(serve: ServeProcess) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(serve.child.pid)], capture_output=True, text=True, check=False)
    return [int(process) for process in found.stdout.split()]


async def _load(serve: ServeProcess, *, messages: int, kills: int) -> None:
    """Publishers and consumers at full speed while the server is killed; then every acknowledged message was finished once."""
    acknowledged: set[str] = set()
    finished: Counter[str] = Counter()
    async with AsyncClient(serve.url, key=serve.key, retry_s=60) as client:
        await client.create_scope("s")
        await client.create_queue("s", "q", visibility_timeout_s=3, max_retries=50, max_reclaims=50)

        async def publish(first: int) -> None:
            for n in range(first, messages, 8):
                made = await client.publish("s", "q", n, idempotency_key=f"n-{n}")
                acknowledged.add(made.id)

        async def handle(message: Claimed) -> str:
            return f"{message.body}-{message.attempts}"

        consumers = [Consumer(client, "s", "q", handle, concurrency=10, wait_s=2) for _ in range(2)]
        consuming = [asyncio.create_task(consumer.run()) for consumer in consumers]
        publishing = [asyncio.create_task(publish(first)) for first in range(8)]
        for kill in range(kills):
            share = messages * (kill + 1) // (kills + 1)
            await until(lambda share=share: len(acknowledged) >= share, timeout=60)  # in the midst of it
            await asyncio.to_thread(serve.kill)
            await asyncio.to_thread(serve.start)
        await asyncio.gather(*publishing)

        async def worked_off() -> bool:
            try:
                queue = await client.queue("s", "q")
            except RelevoError:
                return False
            return queue.depth_pending + queue.depth_delayed + queue.depth_claimed == 0

        await until(worked_off, timeout=120)
        for consumer in consumers:
            consumer.stop()
        await asyncio.gather(*consuming)
        cursor, first = None, True
        while first or cursor is not None:
            page = await client.search("s", queue="q", limit=500, cursor=cursor)
            cursor, first = page.next_cursor, False
            for message in page.items:
                assert message.state == "completed", f"{message.id} is {message.state}"
                finished[message.id] += 1
                history = (await client.history("s", message.id)).items
                assert sum(step.event == "completed" for step in history) == 1, message.id
    assert len(acknowledged) == messages
    assert set(finished) == acknowledged
    assert set(finished.values()) == {1}


@pytest.mark.timeout(240)
async def test_a_kill_under_load_loses_no_acknowledged_publish_and_finishes_every_message_once(
    serve: ServeProcess,
) -> None:
    await _load(serve, messages=120, kills=1)


@pytest.mark.scale
@pytest.mark.timeout(1800)
async def test_many_kills_under_load_lose_nothing(serve: ServeProcess) -> None:
    await _load(serve, messages=20_000, kills=15)


@pytest.mark.scale
@pytest.mark.timeout(1800)
async def test_many_kills_under_load_lose_nothing_on_postgresql(postgres: PostgresServer) -> None:
    postgres.create("kills")
    url = postgres.url("asyncpg", "kills")
    serve = ServeProcess(url, key=first_key(url))
    try:
        await _load(serve, messages=20_000, kills=15)
    finally:
        serve.close()


async def _metrics(serve: ServeProcess) -> str:
    async with httpx.AsyncClient(timeout=limit(30)) as http:
        return (await http.get(f"{serve.url}/metrics")).text
