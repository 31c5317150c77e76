"""Limits follow the machine: what is measured, who measures, and what a busy machine makes of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import pace
from tests.pace import PACE_FILE, SLOWEST, Pace, Pacemaker, limit, slowness


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No leading process: what it tells would hide what is measured here."""
    monkeypatch.delenv(PACE_FILE, raising=False)


def test_a_limit_is_never_less_than_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "work", lambda: pace.QUIET / 10)
    monkeypatch.setattr(pace, "_OWN", Pace())

    assert limit(20) == 20


def test_a_machine_four_times_slower_gets_four_times_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "work", lambda: pace.QUIET * 4)
    monkeypatch.setattr(pace, "_OWN", Pace())

    assert limit(20) == pytest.approx(80)


def test_one_hiccup_counts_as_one_of_several_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = iter([1.0, 1.0, 1.0, 9.0])
    monkeypatch.setattr(pace, "work", lambda: pace.QUIET * next(measured))
    of_four = Pace()
    for _ in range(4):
        of_four.measure()

    assert of_four.slowness() == pytest.approx(3)


def test_a_machine_that_was_asleep_lends_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "work", lambda: 3600.0)
    monkeypatch.setattr(pace, "_OWN", Pace())

    assert slowness() == SLOWEST


def test_the_leading_process_measures_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "work", lambda: pace.QUIET * 6)
    asks = "from tests.pace import limit; print(limit(10))"

    with Pacemaker(tmp_path / "pace").running():
        told = subprocess.run(
            [sys.executable, "-c", asks], capture_output=True, text=True, check=True, env=dict(os.environ)
        )

    assert float(told.stdout) == pytest.approx(60)


def test_a_process_whose_leader_is_gone_measures_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PACE_FILE, str(tmp_path / "gone"))
    monkeypatch.setattr(pace, "work", lambda: pace.QUIET * 2)
    monkeypatch.setattr(pace, "_OWN", Pace())

    assert slowness() == pytest.approx(2)


def test_busy_processes_beside_it_are_measured() -> None:
    """Against the same machine a moment before, so that nothing is asked of how fast or how quiet it is."""
    spin = "while True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        used = os.times()
        beside = max(pace.work() for _ in range(4))
        mine = os.times()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    spent = (mine.user - used.user) / 4

    assert beside > 1.5 * spent  # by the wall clock, not by the time this process had a core
