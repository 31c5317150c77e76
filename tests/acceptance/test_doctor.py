"""`relevo doctor`: names each danger with its remedy, and passes a server that is fit."""

import asyncio
from dataclasses import replace

import pytest

from relevo import Job, Queue, Worker
from relevo.broker.checkup import Facts, Finding, Level, check_up
from tests.conftest import Launch
from tests.pace import limit
from tests.servers.cluster import RedisCluster
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, Server
from tests.support.command_line import Cli, Said, called, relevo

KINDS = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey, RedisCluster], ids=lambda kind: kind.name)

FIT = Facts(
    info={"redis_version": "8.6.3", "role": "master", "used_memory": "1000"},
    settings={"appendonly": "yes", "appendfsync": "always", "maxmemory": "0", "maxmemory-policy": "noeviction"},
    ack_delete=True,
    read_claim=True,
    may_run_scripts=True,
    clock_skew_ms=3,
)


def test_native_commands_are_told_where_they_are(redis86: Server) -> None:
    found = _findings(relevo("doctor", "--json", url=redis86.url).data)
    assert found["server"]["found"].startswith("Redis 8.")
    assert (found["XACKDEL"]["found"], found["XREADGROUP CLAIM"]["found"]) == ("native", "native")


def test_fallbacks_are_told_where_commands_are_missing(redis7: Server) -> None:
    found = _findings(relevo("doctor", "--json", url=redis7.url).data)
    assert found["XACKDEL"]["found"].startswith("fallback")
    assert found["XREADGROUP CLAIM"]["level"] == "ok"


@KINDS
def test_a_server_that_keeps_everything_is_fit(launch: Launch, kind: type[Server]) -> None:
    said = called(launch(kind, appendonly=True), "doctor")
    assert said.code == 0, said.out
    assert "fit to hold jobs" in said.out


def test_a_server_without_persistence_is_a_danger_with_a_remedy(server: Server, cli: Cli) -> None:
    said = cli("doctor", "--json")
    assert said.code == 1
    assert said.data["in_danger"] is True
    assert "CONFIG SET appendonly yes" in _findings(said.data)["persistence"]["remedy"]


@KINDS
def test_a_server_that_evicts_is_a_danger_with_a_remedy(launch: Launch, kind: type[Server]) -> None:
    settings = {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}
    said = called(launch(kind, appendonly=True, settings=settings), "doctor", "--json")
    assert said.code == 1
    assert _findings(said.data)["eviction"]["level"] == "danger"


def test_every_master_of_a_cluster_is_looked_at(cluster: RedisCluster) -> None:
    said = relevo("doctor", "--json", url=cluster.url).data
    assert len({finding["where"] for finding in said["findings"]}) == 3


def test_a_queue_without_workers_is_a_danger(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "lonely")
    found = _findings(cli("doctor", queue_name, "--json").data)
    assert (found["waiting"]["level"], found["waiting"]["remedy"]) == ("danger", "Start a worker for this queue.")


def test_a_queue_with_a_worker_is_well_however_many_wait(server: Server, queue_name: str) -> None:
    async def story() -> Said:
        running, release = asyncio.Event(), asyncio.Event()

        async def hold(_: Job) -> None:
            running.set()
            await release.wait()

        async with Queue(queue_name, redis_url=server.url) as queue:
            await queue.add_bulk([{"name": "slow", "data": None}] * 5)
            async with Worker(queue_name, hold, redis_url=server.url, concurrency=1):
                await asyncio.wait_for(running.wait(), limit(20))
                said = await asyncio.to_thread(relevo, "doctor", queue_name, "--json", url=server.url)
                release.set()
        return said

    found = _findings(asyncio.run(story()).data)["waiting"]
    assert (found["level"], found["found"].partition(",")[0]) == ("ok", "4")


def test_a_queue_whose_delayed_jobs_nobody_promotes_is_a_danger(server: Server, cli: Cli, queue_name: str) -> None:
    server.call_at(f"{{chasqui:{queue_name}}}:delayed", "ZADD", 1, b"\0\0\0\0x")
    assert _findings(cli("doctor", queue_name, "--json").data)["delayed"]["level"] == "danger"


def test_a_fit_server_raises_no_finding() -> None:
    assert {finding.level for finding in check_up(FIT)} == {Level.OK}


@pytest.mark.parametrize(
    ("facts", "subject", "level"),
    [
        (replace(FIT, settings={**FIT.settings, "appendfsync": "no"}), "persistence", Level.NOTE),
        (replace(FIT, settings={"appendonly": "no", "save": "3600 1"}), "persistence", Level.DANGER),
        (replace(FIT, settings={"appendonly": "no", "save": ""}), "persistence", Level.DANGER),
        (replace(FIT, settings={}), "persistence", Level.NOTE),
        (replace(FIT, settings={}), "eviction", Level.NOTE),
        (
            replace(FIT, settings={**FIT.settings, "maxmemory-policy": "volatile-ttl", "maxmemory": "9"}),
            "eviction",
            Level.DANGER,
        ),
        (replace(FIT, settings={**FIT.settings, "maxmemory-policy": "allkeys-lru"}), "eviction", Level.NOTE),
        (replace(FIT, settings={**FIT.settings, "maxmemory": "1001"}), "memory", Level.DANGER),
        (replace(FIT, info={**FIT.info, "redis_version": "6.2.1"}), "server", Level.DANGER),
        (replace(FIT, info={}), "server", Level.NOTE),
        (replace(FIT, info={**FIT.info, "role": "slave"}), "role", Level.DANGER),
        (replace(FIT, info={**FIT.info, "connected_slaves": "2"}), "replicas", Level.NOTE),
        (replace(FIT, info={**FIT.info, "aof_last_write_status": "err"}), "disk", Level.DANGER),
        (replace(FIT, may_run_scripts=False), "scripts", Level.DANGER),
        (replace(FIT, clock_skew_ms=-5000), "clock", Level.NOTE),
    ],
)
def test_each_trouble_is_found_and_comes_with_a_remedy(facts: Facts, subject: str, level: Level) -> None:
    finding: Finding = next(each for each in check_up(facts) if each.subject == subject)
    assert finding.level is level
    assert finding.remedy


def _findings(said: dict[str, list[dict[str, str]]]) -> dict[str, dict[str, str]]:
    return {finding["subject"]: finding for finding in said["findings"]}
