"""Every option of `Worker` is a flag of `relevo worker`, and reaches the worker as what it is."""

from inspect import signature
from typing import Any

import pytest
from typer.main import get_command

from relevo import Job, Worker
from relevo.cli import app
from relevo.cli.workers.worker_options import FLAGS, worker_arguments
from relevo.cli.workers.worker_spec import WorkerSpec
from relevo.engine.consuming.worker_options import WorkerOptions
from relevo.options import options_of
from relevo.wire.retry import RetryDefaults
from tests.support.command_line import call

NO_FLAGS = {
    "queue_name": "--queue",
    "handler": "MODULE:NAME",
    "redis_url": "--redis-url, of all commands",
    "tls": "rediss:// in --redis-url",
    "credential_provider": "a function: for programs that make their own Worker",
    "retry": "the --retry-… flags, one for each field of RetryDefaults",
}
"""Options of `Worker` that are no flag, and what stands for them."""


def test_every_option_of_a_worker_has_a_flag_or_a_reason_why_not() -> None:
    retry = {f"retry_{each.name}" for each in options_of(RetryDefaults)}
    assert set(signature(Worker).parameters) | retry == set(FLAGS) | set(NO_FLAGS)


def written(name: str) -> tuple[list[str], object]:
    """A flag with a value that is not its default, and that value."""
    option = FLAGS[name]
    flag = f"--{name.replace('_', '-')}"
    match option.kind.partition(" | ")[0]:
        case "bool":
            value = not option.default
            return [flag if value else f"--no-{name.replace('_', '-')}"], value
        case "OnBadResult":
            return [flag, "dead"], "dead"
        case "int":
            return [flag, "77"], 77
        case "float":
            return [flag, "7.5"], 7.5
        case kind:
            assert kind == "str"
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
    for option in options_of(WorkerOptions):
        assert getattr(told, option.name) == getattr(plain, option.name), option.name


@pytest.mark.parametrize("flags", [("--idle-ms", "500"), ("--claim-min-idle-ms", "500")])
def test_an_option_with_two_names_has_one_value(flags: tuple[str, ...]) -> None:
    assert made(*flags).claim_min_idle_ms == 500


def test_the_help_groups_the_flags() -> None:
    shown = call("worker", "--help").out
    for panel in {option.about.topic for option in FLAGS.values()}:
        assert f"─ {panel} ─" in shown
