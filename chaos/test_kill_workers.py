"""The long form: minutes of kills on each kind of server. `make chaos`."""

from pathlib import Path

import pytest

from chaos.invariants import lost, overlaps, strangers
from chaos.ledger import Ledger
from chaos.scenarios.kill_workers import kill_workers
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, SingleServer

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=lambda kind: kind.name)
async def test_minutes_of_kills_lose_nothing_and_overlap_nothing(kind: type[SingleServer], tmp_path: Path) -> None:
    with kind(appendonly=True) as server:
        ledger = Ledger(tmp_path / "ledger")
        story = await kill_workers(ledger, "chaos", server.url, seconds=120, workers=5, seed=7, every=0.7)
        ledger.close()
        assert story.faults > 50
        assert lost(story.added, story.marks) == set()
        assert list(overlaps(story.marks)) == []
        assert strangers(story.added, story.marks) == set()
        assert server.call("XLEN", "{chasqui:chaos}:stream") == 0
        assert server.call("XLEN", "{chasqui:chaos}:dlq") == 0
        assert server.call("ZCARD", "{chasqui:chaos}:delayed") == 0
