"""`relevo bench`: measures a server beside its own ceiling, leaves nothing behind, and refuses where it could do harm."""

import asyncio

import pytest

from relevo.bench import trial
from relevo.bench.ceiling import Ceiling
from relevo.bench.trial import STEPS, Measured, Trial
from relevo.errors import NotMeasurable
from tests.conftest import Launch
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, Server, SingleServer
from tests.support.command_line import relevo

KINDS = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=lambda kind: kind.name)
PARTS = ["single add", "100 concurrent adds", "bulk of 500", "drain, events off", "drain, events on"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer jobs: what is tested is that everything is measured, not how fast it is."""
    monkeypatch.setattr(trial, "MOST", 2_000)


@pytest.mark.whole  # a trial at full length; short ones follow
def test_the_command_prints_rates_shares_and_latency_as_json(valkey: Server) -> None:
    said = relevo("bench", "--json", url=valkey.url)
    assert said.code == 0, said.err
    assert list(said.data["jobs_per_s"]) == list(said.data["shares"]) == PARTS
    assert all(rate > 0 for rate in said.data["jobs_per_s"].values())
    assert 0 < said.data["latency_ms"]["p50"] <= said.data["latency_ms"]["p99"]
    assert valkey.call("DBSIZE") == 0


@KINDS
async def test_a_trial_leaves_nothing_behind(few: None, launch: Launch, kind: type[SingleServer]) -> None:
    server, steps = launch(kind), list[str]()
    measured = await Trial(server.url, seconds=0.1).run(steps.append)
    assert list(measured.rates) == PARTS
    assert len(steps) == STEPS
    assert server.call("DBSIZE") == 0


async def test_a_trial_that_is_interrupted_leaves_nothing_behind(few: None, launch: Launch) -> None:
    server, begun = launch(EmbeddedValkey), asyncio.Event()

    def step(name: str) -> None:
        if name == "drain, events off":
            begun.set()

    running = asyncio.create_task(Trial(server.url, seconds=0.1).run(step))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert server.call("DBSIZE") == 0


async def test_other_queues_are_left_alone(few: None, launch: Launch) -> None:
    server = launch(EmbeddedValkey)
    server.call("XADD", "{chasqui:emails}:stream", "*", "d", "mine")
    await Trial(server.url, seconds=0.1).run()
    assert server.call("KEYS", "*") == [b"{chasqui:emails}:stream"]


def test_a_full_server_is_refused_with_a_remedy(launch: Launch) -> None:
    server = launch(EmbeddedValkey, settings={"maxmemory": "20mb", "maxmemory-policy": "noeviction"})
    said = relevo("bench", url=server.url)
    assert said.code == 1
    assert "of its maxmemory" in said.err
    assert "Raise maxmemory" in said.err
    assert server.call("DBSIZE") == 0


def test_a_replica_is_refused_with_a_remedy(launch: Launch) -> None:
    master, replica = launch(EmbeddedValkey), launch(EmbeddedValkey)
    assert isinstance(master, SingleServer)
    replica.call("REPLICAOF", "127.0.0.1", master.port)
    said = relevo("bench", url=replica.url)
    assert said.code == 1
    assert "it is a replica" in said.err
    assert "Name its master" in said.err


async def test_a_server_that_refuses_writes_is_refused_in_its_own_words(launch: Launch) -> None:
    server = launch(EmbeddedValkey)
    server.call("CONFIG", "SET", "min-replicas-to-write", "1")
    with pytest.raises(NotMeasurable, match="NOREPLICAS"):
        await Trial(server.url).run()


async def test_a_trial_that_takes_too_long_says_so_and_clears_up(few: None, launch: Launch) -> None:
    server = launch(EmbeddedValkey)
    with pytest.raises(NotMeasurable, match="not done after"):
        await Trial(server.url, seconds=10.0, longest=0.5).run()
    assert server.call("DBSIZE") == 0


def test_a_server_that_is_not_there_is_told_in_one_line() -> None:
    said = relevo("--patience", "0.2", "bench", url="redis://127.0.0.1:1")
    assert said.code == 1
    assert said.err.count("error:") == 1


@KINDS
async def test_the_ceiling_is_measured_by_what_each_server_has(launch: Launch, kind: type[SingleServer]) -> None:
    server = launch(kind)
    async with Ceiling.of(server.url, "raw") as ceiling:
        assert await ceiling.adds(1_000) > 0
        assert await ceiling.drain(1_000) > 0
        assert server.call("XLEN", "{chasqui:raw}:stream") == 0
    assert server.call("DBSIZE") == 0


def test_a_share_is_of_the_rate_that_bounds_it() -> None:
    measured = Measured(rates={"single add": 10.0}, ceilings={"round trips": 40.0})
    assert measured.shares == {"single add": 0.25}
