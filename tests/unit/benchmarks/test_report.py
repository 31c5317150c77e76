"""The page and the drawings that are made of a run's numbers."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks import chart, reasons, report
from benchmarks.goals import GOALS
from benchmarks.growth import SIZES
from benchmarks.machine import describe
from benchmarks.points import Point, Points
from benchmarks.tally import Tally

TALLY = Tally(
    machine={"CPU": "2 cores, Some CPU", "redis86": "Redis 8.6.3"},
    versions={"the server itself": "", "relevo": "1", "chasquimq": "2", "rq <&>": "3"},
    numbers={
        "the server itself": {"raw_drain": [100_000.0], "raw_add_once": [200_000.0]},
        "relevo": {"drain": [90_000.0, 110_000.0, 100_000.0], "cpu": [0.5]},
        "chasquimq": {"drain": [10_000.0], "cpu": [10.0]},
        "rq <&>": {"drain": [100.0]},
    },
    failures=["saq: drain: it broke\n  File /somewhere/private.py"],
    seconds=0.6,
)
POINTS = Points(
    points=[
        Point("waiting", 100, "a job drained", 4.0, 4.0, 1000.0),
        Point("waiting", 10, "a job drained", 2.0, 2.0, 1000.0),
    ]
)


def written(folder: Path) -> str:
    TALLY.save(folder / "run.json")
    POINTS.save(folder / "growth.json")
    return report.write(folder / "run.json", folder / "growth.json", into=folder).read_text()


def test_the_page_has_medians_ratios_and_goals(tmp_path: Path) -> None:
    page = written(tmp_path)
    assert "| relevo | 100,000 (10x) |" in re.sub(r"(- \| )+", "", page.replace("| - ", ""))
    assert "| drain, events off, like for like | chasquimq | 8 | 10.00 | met |" in page
    assert "| drain, events off, against its best tuning | chasquimq, tuned | 4 | not measured |  |" in page
    assert "2 cores, Some CPU" in page
    assert "3 interleaved rounds" in page


def test_the_page_tells_failures_without_the_machines_paths(tmp_path: Path) -> None:
    page = written(tmp_path)
    assert "- saq: drain: it broke" in page
    assert "private.py" not in page


def test_growth_is_told_against_the_smallest_size(tmp_path: Path) -> None:
    page = written(tmp_path)
    assert "| waiting | 10 | a job drained | 2.0 | 2.0 | 1,000 | 1.00 |" in page
    assert "| waiting | 100 | a job drained | 4.0 | 4.0 | 1,000 | 2.00 |" in page


def test_a_goal_that_was_not_met_says_how_far_it_is_and_what_the_profile_shows(tmp_path: Path) -> None:
    slow = Tally(
        versions=TALLY.versions,
        numbers={
            "relevo": {"drain": [50_000.0], "cpu": [0.5], "cpu_server": [1.0]},
            "chasquimq": {"drain": [10_000.0]},
        },
    )
    slow.save(tmp_path / "run.json")
    page = report.write(tmp_path / "run.json", tmp_path / "none.json", into=tmp_path).read_text()
    assert (
        "- **drain, events off, like for like**: 62% of the goal. A job took 5.0 µs of our process and 10.0 µs of Redis: "
        in page
    )
    assert "our process was busy 25% of the time, Redis 50%. A job costs Redis one XREADGROUP" in page


def test_goals_that_were_met_need_no_excuse(tmp_path: Path) -> None:
    assert "stands in the way" not in written(tmp_path)


def test_growth_that_is_not_flat_says_why(tmp_path: Path) -> None:
    assert "- **waiting**, a job drained: 2.0 times as dear at 100. Redis' memory grows" in written(tmp_path)


def test_every_goal_and_every_line_of_growth_has_its_reason() -> None:
    assert {goal.case for goal in GOALS} <= reasons.BY_CASE.keys()
    assert reasons.BY_LINE.keys() == SIZES.keys()


def test_a_page_without_growth_has_no_such_section(tmp_path: Path) -> None:
    TALLY.save(tmp_path / "run.json")
    page = report.write(tmp_path / "run.json", tmp_path / "none.json", into=tmp_path).read_text()
    assert "## Growth" not in page


def test_the_same_numbers_make_the_same_page(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path)


def test_drawings_are_well_formed_and_know_the_dark() -> None:
    for drawing in (chart.bars(TALLY), chart.growth(POINTS), chart.bars(Tally()), chart.growth(Points())):
        assert ET.fromstring(drawing).tag.endswith("svg")  # noqa: S314  our own drawing
        assert "prefers-color-scheme: dark" in drawing


def test_the_longest_bar_is_the_best_rate() -> None:
    widths = [float(width) for width in re.findall(r'<rect class="\w+"[^>]* width="([\d.]+)"', chart.bars(TALLY))]
    assert max(widths) == widths[0] == chart.BAR


def test_the_machine_is_described_without_its_name() -> None:
    found = describe()
    assert set(found) == {"CPU", "memory", "kernel", "Python"}
    assert all("/" not in value for value in found.values())
