"""What is made of the numbers of a run: medians, ratios, goals, and the sizes of the next runs."""

from pathlib import Path

import pytest

from benchmarks.case import CASES, TASKS
from benchmarks.contestant import PINNED
from benchmarks.goals import GOALS, outcomes
from benchmarks.pace import FIRST, Pace
from benchmarks.roster import CONTESTANTS, chosen
from benchmarks.rounds import planned
from benchmarks.tally import Tally


def tally(**rounds: dict[str, list[float]]) -> Tally:
    made = Tally(versions={name.replace("_", " "): "1" for name in rounds})
    for name, cases in rounds.items():
        made.numbers[name.replace("_", " ")] = cases
    return made


def test_a_ratio_is_of_medians_and_more_is_better_for_rates() -> None:
    made = tally(relevo={"drain": [90.0, 100.0, 900.0]}, chasquimq={"drain": [10.0, 1.0, 20.0]})
    assert made.ratio("drain", "relevo", "chasquimq") == 10.0


def test_less_is_better_for_latency() -> None:
    made = tally(relevo={"latency_p50": [0.5]}, chasquimq={"latency_p50": [1.0]})
    assert made.ratio("latency_p50", "relevo", "chasquimq") == 2.0


def test_microseconds_a_job_become_seconds_for_100k_jobs() -> None:
    made = Tally(versions={"relevo": "1"})
    made.note("relevo", TASKS["drain"].answers, {"rate": 1000.0, "cpu_us": 5.0})
    assert made.numbers == {"relevo": {"drain": [1000.0], "cpu": [0.5]}}


def test_what_was_not_measured_is_a_dash() -> None:
    assert tally(relevo={"drain": [1.0]}).cell("relevo", "add_single", "chasquimq") == "-"


def test_a_tally_survives_its_file(tmp_path: Path) -> None:
    made = tally(relevo={"drain": [1.0, 2.0]})
    made.failures.append("one: drain: no answer")
    made.save(tmp_path / "deep" / "run.json")
    assert Tally.load(tmp_path / "deep" / "run.json") == made


def test_goals_are_met_not_met_or_unknown() -> None:
    made = tally(relevo={"drain": [80.0], "add_single": [1.0]}, chasquimq={"drain": [10.0], "add_single": [1.0]})
    found = {goal.title: met for goal, _, met in outcomes(made)}
    assert found["drain, events off, like for like"] is True
    assert found["single add"] is False
    assert found["retry storm"] is None


def test_goals_name_cases_and_contestants_that_exist() -> None:
    names = {each.name for each in CONTESTANTS} | {"arithmetic"}
    cases = {case.name for case in CASES}
    assert {goal.rival for goal in GOALS} | {goal.who for goal in GOALS} <= names
    assert {goal.case for goal in GOALS} | {goal.their_case for goal in GOALS if goal.their_case} <= cases


def test_every_measure_belongs_to_a_case_of_the_table() -> None:
    cases = {case.name for case in CASES}
    assert {case for each in CONTESTANTS for task in each.tasks for case in task.answers.values()} == cases


def test_every_rival_has_pinned_packages() -> None:
    for name, packages in PINNED.items():
        at = "@" if name.endswith("-node") else "=="
        assert packages, name
        assert all(at in package for package in packages), name
    assert {each.home for each in CONTESTANTS if each.home is not None} == set(PINNED)


def test_a_fast_contestant_gets_more_jobs_the_next_time() -> None:
    relevo, task, pace = chosen(["relevo"])[0], TASKS["drain"], Pace(0.5)
    assert pace.jobs(relevo, task) == FIRST
    pace.learn(relevo, task, {"rate": 100_000.0})
    assert pace.jobs(relevo, task) == 50_000
    assert pace.too_short(relevo, task, FIRST)
    assert not pace.too_short(relevo, task, 40_000)


@pytest.mark.parametrize("rate", [0.1, 1e9])
def test_the_slowest_and_the_fastest_get_a_number_of_jobs_that_ends(rate: float) -> None:
    relevo, task, pace = chosen(["relevo"])[0], TASKS["drain"], Pace(0.5)
    pace.learn(relevo, task, {"rate": rate})
    assert task.step <= pace.jobs(relevo, task) <= task.most


def test_contestants_take_turns_at_each_task() -> None:
    plan = planned(chosen(["relevo", "chasquimq"]), [])
    order = [next(iter(task.answers.values())) for _, task in plan]
    assert order == sorted(order, key=order.index)
    assert {who.name for who, task in plan if "add_single" in task.answers.values()} == {"relevo", "chasquimq"}


def test_a_chosen_case_brings_the_ceiling_with_it() -> None:
    plan = planned(chosen([]), ["drain_5ms"])
    assert {task.name for _, task in plan} == {"ceiling", "drain"}
