"""The demo: tells its story, checks its numbers, and fails when they do not add up."""

import io

from rich.console import Console

from relevo.demo.stage import Scene, Stage
from relevo.demo.story import ACTS
from relevo.demo.tally import Tally
from tests.acceptance.conftest import relevo


def test_the_demo_tells_every_act_and_adds_up() -> None:
    said = relevo("demo", "--fast")
    assert said.code == 0, said.out + said.err
    assert {"schedule", "flow", "limit", "worker dies", "server dies"} <= set(ACTS)
    for word in ACTS:
        assert f"\n{word}: " in f"\n{said.out}"
    assert "Every number adds up" in said.out


def test_a_number_that_does_not_add_up_is_said() -> None:
    tally, out = Tally(), io.StringIO()
    tally.equal("parcels delivered", 10, 9)
    Stage(Console(file=out, width=100), [], []).summary(tally, 1.0)
    assert not tally.holds
    assert "do not add up" in out.getvalue()


def test_a_job_that_finished_twice_counts_once() -> None:
    tally = Tally()
    for _ in range(2):
        tally.finished("a")
    tally.all_finished("both", ["a", "b"])
    assert [(check.expected, check.got) for check in tally.checks] == [("2", "1")]


def test_the_picture_fits_a_plain_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, height=30, force_terminal=True, color_system=None)
    scenes = [Scene(act, "what happens in it") for act in ACTS]
    with Stage(console, scenes, ["one", "two", "three"]) as stage:
        for number in range(20):
            stage.news(f"news {number} " + "x" * 200)
    last = out.getvalue().rpartition("╭─ relevo")[2]
    assert last.count("\n") < 30
    assert "news 19" in last
