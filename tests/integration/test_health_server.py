"""Probes over real HTTP, of workers on a real server."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from relevo import HealthServer, Job, Metrics, Worker
from relevo.errors import CannotListen
from tests.conftest import Launch
from tests.pace import limit
from tests.patience import until
from tests.servers.server import Redis86, Server


async def handle(job: Job) -> None: ...


async def get(server: HealthServer, path: str, *, method: str = "GET") -> tuple[int, str, str]:
    """Status, content type and body."""

    def fetch() -> tuple[int, str, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=limit(20)) as answer:  # noqa: S310 - our own server
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    return await asyncio.to_thread(fetch)


async def ready(server: HealthServer) -> tuple[int, Any]:
    status, _, body = await get(server, "/readyz")
    return status, json.loads(body)


async def reading(worker: Worker) -> None:
    """Health is asked, not told: a probe does the same."""
    await until(lambda: worker.health().can_claim, timeout=30)


async def not_reading(worker: Worker) -> None:
    await until(lambda: not worker.health().can_claim)


@pytest.fixture
async def idle() -> AsyncGenerator[HealthServer]:
    """A server of no workers."""
    async with HealthServer([], port=0) as server:
        yield server


async def test_ready_means_that_every_worker_can_claim(server: Server, queue_name: str) -> None:
    workers = [Worker(queue_name, handle, redis_url=server.url, read_block_ms=50) for _ in range(2)]
    async with HealthServer(workers, port=0) as probes:
        assert (await ready(probes))[0] == 503
        async with workers[0]:
            await reading(workers[0])
            status, told = await ready(probes)
            assert (status, [each["reason"] for each in told["workers"]]) == (503, ["", "not running"])
            async with workers[1]:
                await reading(workers[1])
                assert (await ready(probes))[0] == 200


async def test_a_worker_without_its_server_is_alive_and_not_ready(launch: Launch, queue_name: str) -> None:
    redis = launch(Redis86)
    worker = Worker(queue_name, handle, redis_url=redis.url, read_block_ms=50, shutdown_deadline_s=0.1)
    async with HealthServer([worker], port=0) as server, worker:
        await reading(worker)
        redis.kill()
        async with asyncio.timeout(limit(20)):
            while (await ready(server))[0] == 200:
                pass
        status, told = await ready(server)
        alive = (await get(server, "/healthz"))[0]
    assert (status, alive, told["workers"][0]["can_claim"]) == (503, 200, False)
    assert told["workers"][0]["reason"] != ""


async def test_an_idle_worker_is_ready_again_when_its_server_is_back(launch: Launch, queue_name: str) -> None:
    """It has nothing to settle, and must find out all the same that it could."""
    redis = launch(Redis86)
    worker = Worker(queue_name, handle, redis_url=redis.url, read_block_ms=50)
    async with HealthServer([worker], port=0) as server, worker:
        await reading(worker)
        redis.kill()
        await not_reading(worker)
        redis.restart()
        async with asyncio.timeout(limit(20)):
            while (await ready(server))[0] != 200:
                pass


async def test_a_paused_worker_is_ready(server: Server, queue_name: str) -> None:
    worker = Worker(queue_name, handle, redis_url=server.url, read_block_ms=50)
    worker.pause()
    async with HealthServer([worker], port=0) as probes, worker:
        await reading(worker)
        status, told = await ready(probes)
    assert (status, told["workers"][0]["reason"]) == (200, "paused")


async def test_metrics_are_served_in_prometheus_own_format(server: Server, queue_name: str) -> None:
    metrics = Metrics()
    worker = Worker(queue_name, handle, redis_url=server.url)
    metrics.watch(worker)
    async with HealthServer([worker], port=0, metrics=metrics) as probes:
        status, content_type, body = await get(probes, "/metrics?name[]=x")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert f'relevo_can_claim{{queue="{queue_name}"}} 0.0' in body


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/metrics", 404), ("GET", "/", 404), ("POST", "/healthz", 405), ("HEAD", "/healthz", 200)],
)
async def test_what_is_not_there_is_said(idle: HealthServer, method: str, path: str, status: int) -> None:
    assert (await get(idle, path, method=method))[0] == status


async def test_a_process_without_workers_is_not_ready(idle: HealthServer) -> None:
    assert (await ready(idle))[0] == 503


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\r\n\r\n", b"GET /healthz\r\n\r\n", b"GET / " + b"a" * 100_000])
async def test_what_is_not_http_is_refused(idle: HealthServer, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", idle.port)
    writer.write(sent)
    answer = await asyncio.wait_for(reader.readline(), limit(20))
    writer.transport.abort()
    assert answer == b"HTTP/1.1 400 Bad Request\r\n"


async def test_clients_that_say_nothing_do_not_keep_the_probes_waiting(idle: HealthServer) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", idle.port) for _ in range(20)]
    assert (await get(idle, "/healthz"))[0] == 200
    for _, writer in silent:
        writer.transport.abort()


async def test_a_port_that_is_taken_is_named_with_the_remedy(idle: HealthServer) -> None:
    with pytest.raises(CannotListen, match=f"127.0.0.1:{idle.port}.*Choose another port"):
        await HealthServer([], port=idle.port).start()


async def test_after_stop_the_port_is_free(idle: HealthServer) -> None:
    await idle.stop()
    async with HealthServer([], port=idle.port) as again:
        assert (await get(again, "/healthz"))[0] == 200
