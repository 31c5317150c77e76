"""The short form of chaos/: the long one is `make chaos`."""

from pathlib import Path

import pytest

from chaos.invariants import lost, overlaps, runs, strangers
from chaos.ledger import Ledger, Mark
from chaos.scenarios.kill_workers import kill_workers
from tests.conftest import Launch
from tests.servers.server import Redis86


@pytest.mark.timeout(120)
async def test_kill_9_of_workers_under_load_loses_nothing_and_overlaps_nothing(
    launch: Launch, queue_name: str, tmp_path: Path
) -> None:
    server = launch(Redis86)
    ledger = Ledger(tmp_path / "ledger")
    story = await kill_workers(ledger, queue_name, server.url, seconds=8, seed=1)
    ledger.close()
    assert story.faults >= 3
    assert len(story.added) > 500
    assert not all(run.completed for run in runs(story.marks)), "no kill hit a running job: this run proves nothing"
    assert lost(story.added, story.marks) == set()
    assert list(overlaps(story.marks)) == []
    assert strangers(story.added, story.marks) == set()
    for key in ("stream", "dlq", "delayed"):
        kind = "ZCARD" if key == "delayed" else "XLEN"
        assert server.call(kind, f"{{chasqui:{queue_name}}}:{key}") == 0


def test_the_judge_sees_a_lost_job_and_an_overlap() -> None:
    marks = [
        Mark("start", 1, 1.0, "a"),
        Mark("start", 2, 1.5, "a"),
        Mark("end", 1, 2.0, "a"),
        Mark("start", 1, 3.0, "b"),
        Mark("died", 1, 3.5),
        Mark("start", 2, 4.0, "c"),
        Mark("end", 2, 5.0, "c"),
    ]
    assert lost(["a", "b", "c"], marks) == {"b"}
    assert [(first.pid, second.pid) for first, second in overlaps(marks)] == [(1, 2)]
    assert strangers(["a", "b"], marks) == {"c"}


def test_a_run_ends_with_its_process() -> None:
    marks = [Mark("start", 1, 1.0, "a"), Mark("died", 1, 2.0), Mark("start", 2, 3.0, "a"), Mark("end", 2, 4.0, "a")]
    assert [(run.ended, run.completed) for run in runs(marks)] == [(2.0, False), (4.0, True)]
    assert list(overlaps(marks)) == []
