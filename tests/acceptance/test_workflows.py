"""The workflows of a public forge and the hooks of a commit: what they call exists, and what they promise is in them."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.page import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_make_target_of_a_workflow_exists(workflow: Path) -> None:
    called = [target for step in _steps(workflow) for target in re.findall(r"\bmake ([\w-]+)", step.get("run", ""))]
    assert called, "it runs nothing of ours"
    assert [target for target in called if target not in _targets()] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_pinned_by_its_major_version(workflow: Path) -> None:
    actions = [step["uses"] for step in _steps(workflow) if "uses" in step]
    assert [action for action in actions if not re.fullmatch(r"actions/[\w-]+@v\d+", action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_and_always_ends(workflow: Path) -> None:
    read = _read(workflow)
    assert read["permissions"] == {"contents": "read"}
    assert [name for name, job in read["jobs"].items() if "timeout-minutes" not in job] == []


def test_a_push_is_tested_on_every_python_that_we_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert _read(ROOT / ".github/workflows/push.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == named


@pytest.mark.parametrize(
    ("workflow", "command", "every"),
    [("nightly", "make test-all", r"\d+ \d+ \* \* \*"), ("weekly", "make chaos", r"\d+ \d+ \* \* \d")],
)
def test_the_long_runs_have_their_hour(workflow: str, command: str, every: str) -> None:
    file = ROOT / ".github" / "workflows" / f"{workflow}.yml"
    assert command in [step.get("run") for step in _steps(file)]
    (schedule,) = _read(file)[True]["schedule"]  # YAML reads the key `on` as true
    assert re.fullmatch(every, schedule["cron"])


def test_every_hook_of_a_commit_calls_a_make_target_or_looks_for_a_pattern() -> None:
    hooks = _hooks()
    called = {hook["entry"].removeprefix("make ") for hook in hooks.values() if hook["language"] == "system"}
    assert called == {"lint", "types"}
    assert called <= _targets()
    assert {hook["language"] for hook in hooks.values()} == {"system", "pygrep"}


@pytest.mark.parametrize(("length", "refused"), [(72, False), (73, True)])
def test_a_commit_subject_has_at_most_72_characters(length: int, refused: bool) -> None:
    message = f"{'a' * length}\n\n{'The body may have longer lines. ' * 9}\n"
    assert bool(re.search(_hooks()["subject"]["entry"], message, re.MULTILINE)) == refused


def _hooks() -> dict[str, dict[str, str]]:
    (local,) = _read(ROOT / ".pre-commit-config.yaml")["repos"]
    return {hook["id"]: hook for hook in local["hooks"]}


def _read(workflow: Path) -> dict[Any, Any]:
    return yaml.safe_load(workflow.read_text())


def _steps(workflow: Path) -> list[dict[str, str]]:
    return [step for job in _read(workflow)["jobs"].values() for step in job["steps"]]


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
