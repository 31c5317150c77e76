"""The table of docs/guarantees.md, row by row: what is left of acknowledged jobs when the server ends."""

import asyncio

import pytest

from relevo import Queue
from tests.conftest import Launch
from tests.servers.process import wait_until
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, Server

JOBS = 500
EVERYSEC = {"appendonly": "yes", "appendfsync": "everysec"}
SNAPSHOTS = {"save": "3600 1"}
NONE = {"save": "", "appendonly": "no"}

Kind = type[Redis86 | Redis7 | EmbeddedValkey]
kinds = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=["redis86", "redis7", "valkey"])


@kinds
def test_jobs_survive_a_kill_with_an_append_only_file_always(launch: Launch, kind: Kind, queue_name: str) -> None:
    server = launch(kind, appendonly=True)
    _add(server, queue_name)
    server.kill()
    server.restart()
    assert _kept(server, queue_name) == (JOBS, 1)


@kinds
def test_what_was_handed_to_the_disk_survives_a_kill_with_an_append_only_file_every_second(
    launch: Launch, kind: Kind, queue_name: str
) -> None:
    server = launch(kind, settings=EVERYSEC)
    _add(server, queue_name)
    # While the disk is busy with the last second, Redis may hold a write back for up to two more.
    wait_until(lambda: b"aof_buffer_length:0\r\n" in server.call("INFO", "persistence"), "the file to be written")
    server.kill()
    server.restart()
    assert _kept(server, queue_name) == (JOBS, 1)


def test_jobs_survive_a_planned_restart_with_snapshots(launch: Launch, queue_name: str) -> None:
    server = launch(Redis86, settings=SNAPSHOTS)
    _add(server, queue_name)
    server.restart()
    assert _kept(server, queue_name) == (JOBS, 1)


def test_a_kill_with_snapshots_loses_what_came_after_the_last(launch: Launch, queue_name: str) -> None:
    server = launch(Redis86, settings=SNAPSHOTS)
    _add(server, queue_name)
    server.call("SAVE")
    _add(server, queue_name)
    server.kill()
    server.restart()
    assert _kept(server, queue_name) == (JOBS, 1)


def test_without_persistence_a_restart_loses_everything(launch: Launch, queue_name: str) -> None:
    server = launch(Redis86, settings=NONE)
    _add(server, queue_name)
    server.restart()
    assert _kept(server, queue_name) == (0, 0)


def _add(server: Server, queue_name: str) -> None:
    async def add() -> None:
        async with Queue(queue_name, redis_url=server.url) as queue:
            await queue.add_bulk([{"name": "keep", "data": number} for number in range(JOBS)])
            await queue.add("later", None, delay_ms=3_600_000, job_id="one")

    asyncio.run(add())


def _kept(server: Server, queue_name: str) -> tuple[int, int]:
    """Immediate and delayed jobs that are there."""
    tag = f"{{chasqui:{queue_name}}}"
    return server.call("XLEN", f"{tag}:stream"), server.call("ZCARD", f"{tag}:delayed")
