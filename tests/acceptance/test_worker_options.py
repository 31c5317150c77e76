"""Every option of `Worker` is a flag of `relevo worker`, and reaches the worker as what it is."""

from typing import Any, Literal, get_origin

import pytest
from typer.main import get_command

from relevo import Job, Worker
from relevo.cli import app
from relevo.cli.workers.worker_options import FLAGS, NOT_FLAGS, worker_arguments, worker_parameters
from relevo.cli.workers.worker_spec import WorkerSpec
from tests.support.command_line import call


def test_every_option_of_a_worker_has_a_flag_or_a_reason_why_not() -> None:
    assert set(worker_parameters()) == set(FLAGS) | set(NOT_FLAGS)
    assert not set(FLAGS) & set(NOT_FLAGS)


def written(name: str) -> tuple[list[str], object]:
    """A flag with a value that is not its default, and that value."""
    parameter = worker_parameters()[name]
    flag = f"--{name.replace('_', '-')}"
    kind: Any = parameter.annotation
    if kind in (bool, bool | None):
        value = not parameter.default
        return [flag if value else f"--no-{name.replace('_', '-')}"], value
    if get_origin(kind) is Literal:
        return [flag, "dead"], "dead"
    if kind in (int, int | None):
        return [flag, "77"], 77
    if kind in (float, float | None):
        return [flag, "7.5"], 7.5
    assert kind in (str, str | None)
    return [flag, "other"], "other"


def made(*flags: str) -> Any:
    """The settings of the worker that `relevo worker` would make, by the way its processes go."""
    command: Any = get_command(app)
    context = command.commands["worker"].make_context("worker", ["app:tasks", "-q", "q", *flags])
    options = {name: context.params[name] for name in FLAGS}
    spec = WorkerSpec.read(WorkerSpec("app:tasks", ("q",), "redis://127.0.0.1:6379", options).written)

    async def handler(_: Job) -> None: ...

    worker = Worker("q", handler, **worker_arguments(spec.options))
    return worker._settings  # pyright: ignore[reportPrivateUsage] - what it goes by


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_reaches_the_worker_with_its_type(name: str) -> None:
    flags, value = written(name)
    needs = ["--rate-limit-max", "5"] if name == "rate_limit_burst" else []
    settings = made(*flags, *needs)
    retry = name.removeprefix("retry_")
    found = getattr(settings.retry, retry) if retry != name else getattr(settings, name)
    assert (found, type(found)) == (value, type(value))


def test_without_flags_a_worker_is_as_without_options() -> None:
    async def handler(_: Job) -> None: ...

    plain = Worker("q", handler)._settings  # pyright: ignore[reportPrivateUsage]
    told = made()
    for name in (name for name in worker_parameters() if hasattr(plain, name) and name != "consumer_id"):
        assert getattr(told, name) == getattr(plain, name), name


@pytest.mark.parametrize("flags", [("--idle-ms", "500"), ("--claim-min-idle-ms", "500")])
def test_an_option_with_two_names_has_one_value(flags: tuple[str, ...]) -> None:
    assert made(*flags).claim_min_idle_ms == 500


def test_the_help_groups_the_flags() -> None:
    shown = call("worker", "--help").out
    for panel in {flag.panel for flag in FLAGS.values()}:
        assert f"─ {panel} ─" in shown
