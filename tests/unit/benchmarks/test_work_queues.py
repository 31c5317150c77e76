"""The bench of work queues: its cases and goals, what it compares, and the page that is made of its figures."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures import Figures
from benchmarks.work import report
from benchmarks.work.cases import CASES, OLD, old, turns_of
from benchmarks.work.choice import names_of
from benchmarks.work.comparison import Line
from benchmarks.work.contestants import STORES
from benchmarks.work.footprint import cpu_s, family, forget_peak, peak_mb
from benchmarks.work.goals import GOALS, outcomes
from benchmarks.work.load import Drafts
from benchmarks.work.turns import FIRST, MOST, TURNS, stocked
from benchmarks.work.version import this_checkout, version_of


def run_of(**medians: dict[str, float]) -> Figures:
    figures = Figures()
    for who, cases in medians.items():
        for case, value in cases.items():
            figures.note(who, case, value)
    return figures


def reached(figures: Figures, store: str, name: str) -> tuple[float | None, bool | None]:
    (found,) = (goal for goal in outcomes(figures, [store]) if goal.name == name)
    return found.reached, found.met


def test_every_turn_has_a_case_and_every_goal_is_of_a_case() -> None:
    assert sorted(turns_of(list(CASES))) == sorted(TURNS)
    assert {goal.case for goal in GOALS} <= set(CASES)
    assert len({goal.name for goal in GOALS}) == len(GOALS)


def test_a_batch_counts_at_its_better_size_against_the_fastest_rival_at_its_own() -> None:
    figures = run_of(
        sqlite={"batch_100": 50.0, "batch_500": 180.0, "batch_uuid_500": 90.0},
        oban={"batch_100": 100.0, "batch_500": 20.0},
        pgqueuer={"batch_500": 90.0},
    )
    assert reached(figures, "sqlite", "batch") == (1.8, True)
    assert reached(figures, "sqlite", "batch_uuid") == (0.9, False)


def test_single_settles_are_compared_with_the_older_relevo_on_the_same_store() -> None:
    figures = run_of(mariadb={"settle_each_1": 30.0})
    figures.note(old("mariadb"), "settle_each_1", 10.0)
    figures.note(old("sqlite"), "settle_each_1", 1.0)
    assert reached(figures, "mariadb", "settle_each_1") == (3.0, True)
    assert OLD in old("mariadb")


def test_memory_is_the_highest_of_all_cases() -> None:
    figures = run_of(sqlite={"single_memory_mb": 90.0, "batch_500_memory_mb": 151.0})
    assert reached(figures, "sqlite", "memory") == (151.0, False)


def test_a_goal_that_nobody_set_is_shown_and_not_judged() -> None:
    figures = run_of(sqlite={"batch_1kb_100": 10.0}, oban={"batch_1kb_100": 5.0})
    assert reached(figures, "sqlite", "batch_1kb") == (2.0, None)


def test_what_was_not_measured_again_is_kept() -> None:
    older = run_of(sqlite={"single": 1.0, "batch_100": 2.0}, oban={"single": 3.0})
    figures = run_of(sqlite={"single": 10.0}).over(older)
    assert figures.all == {"sqlite": {"single": [10.0], "batch_100": [2.0]}, "oban": {"single": [3.0]}}


def test_only_the_goals_of_the_chosen_cases_are_told() -> None:
    told = [goal.name for goal in outcomes(run_of(sqlite={}), ["sqlite"], ["settle_each", "two_processes"])]
    assert told == ["settle_each_10", "settle_each_1", "memory"]  # SQLite has one process


def test_names_are_read_with_commas_and_a_wrong_one_is_named() -> None:
    assert names_of(STORES)(" mariadb,sqlite") == ["mariadb", "sqlite"]
    assert names_of(STORES)("") == []
    with pytest.raises(argparse.ArgumentTypeError, match="'oracle' is none of sqlite, postgresql, mariadb"):
        names_of(STORES)("sqlite,oracle")


def test_drafts_have_keys_of_their_own_and_bodies_of_their_size() -> None:
    plain = Drafts({})
    (first, second) = (json.loads(plain.text(n)) for n in (0, 1))
    assert first["body"] == {"i": 0}
    assert first["idempotency_key"] != second["idempotency_key"]
    large = json.loads(Drafts({"body_bytes": 1024, "keys": "random"}).text(1_234_567))
    assert len(json.dumps(large["body"], separators=(",", ":"))) == 1024
    assert [len(part) for part in large["idempotency_key"].split("-")] == [8, 4, 4, 4, 12]


def test_drafts_take_their_attributes_by_turns() -> None:
    drafts = Drafts({"attributes": [{"labels": {"kind": "a"}, "delay_s": 1}, {}]})
    told = [json.loads(drafts.text(n)) for n in range(3)]
    assert [draft.get("delay_s") for draft in told] == [1, None, 1]
    assert told[0]["labels"] == {"kind": "a"}


def test_a_drain_finds_whole_batches_within_bounds() -> None:
    assert [stocked(n) for n in (0, 30_749, 10**9)] == [FIRST, 30_500, MOST]


def test_a_comparison_has_the_ratio_of_medians_and_of_the_cost() -> None:
    line = Line("sqlite", "single", (100.0, 250.0), (20.0, 5.0), (20.0, 5.0), (90.0, 80.0), [2.5], [0.25])
    assert (line.ratio, line.cpu_ratio) == (2.5, 0.25)


def test_a_version_is_this_checkout_or_a_folder_with_an_environment(tmp_path: Path) -> None:
    assert version_of(".") == this_checkout()
    with pytest.raises(RuntimeError, match=r"has no \.venv/bin/python"):
        version_of(str(tmp_path))
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert version_of(str(tmp_path)).python == python


def test_a_commit_that_does_not_exist_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"git rev-parse --verify no-such-commit\^\{commit\}: "):
        version_of("no-such-commit")


def test_the_footprint_covers_those_that_a_process_started() -> None:
    nested = (
        "import os, subprocess\n"
        "child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\n"
        "while sum(os.times()[:2]) == 0: pass\n"  # the kernel counts in ticks, of which a busy machine gave it none yet
        "print(flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(family(process.pid)) == 2
        assert cpu_s(process.pid) > 0
        process.communicate(b"\n")
    forget_peak(os.getpid())
    assert peak_mb(os.getpid()) > 1


def test_the_page_tells_goals_turns_lists_and_failures(tmp_path: Path) -> None:
    costs = {
        "single_cpu_us": 100.0,
        "single_database_cpu_us": 0.0,
        "single_load_cpu_us": 10.0,
        "single_memory_mb": 120.0,
    }
    figures = run_of(
        sqlite={"single": 6_000.0, **costs, "list messages, newest": 3.2, "archiver": 1_100.0},
        oban={"single": 2_000.0},
    )
    figures.failures.append("sqlite, lists: it broke\n  File /somewhere/private.py")
    page = tmp_path / "page.md"
    report.write(figures, page)
    told = page.read_text()
    assert (
        "| sqlite | single publish over HTTP, 50 clients, times the best rival | ≥ 3.5 | 3.00 | **not met**, 86% of"
        in told
    )
    assert "| single publish, 50 clients | 6,000; 100 / 10.0; 120 |" in told
    assert "| messages, newest | 3.20 |" in told
    assert "| archiver | 1,100 |" in told
    assert "- sqlite, lists: it broke" in told
    assert "private.py" not in told
