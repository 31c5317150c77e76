"""The options of `relevo.Worker` as flags of `relevo worker`. Names, types and defaults come from its signature; here stands a
line of help for each, and a test finds an option that has none."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import typer

from relevo.engine.worker import Worker
from relevo.wire.retry import RetryDefaults

JOBS = "Jobs"
RETRIES = "Retries of jobs without a backoff of their own"
RESULTS = "Results, events and traces"
LIMITS = "Limits over all workers of a queue"
READING = "Reading from Redis"
DUTIES = "Duties that one worker of all does"
PROCESSES = "Processes"
OBSERVING = "Logs and metrics"

NOT_FLAGS = {
    "queue_name": "--queue",
    "handler": "MODULE:NAME",
    "redis_url": "--redis-url, of all commands",
    "tls": "rediss:// in --redis-url",
    "credential_provider": "a function: for programs that make their own Worker",
    "retry": "the --retry-… flags, one for each field of RetryDefaults",
}
"""Options of `Worker` that are no flag, and what stands for them."""


@dataclass(frozen=True)
class Flag:
    """What the help says of an option, and its further names."""

    panel: str
    help: str
    names: tuple[str, ...] = ()
    least: float | None = None
    """The least value; without it 1 for a number of things and 0 for seconds."""


FLAGS = {
    "concurrency": Flag(JOBS, "Jobs at a time, for each queue.", ("-c",)),
    "max_attempts": Flag(JOBS, "Runs before a failing job is dead-lettered; a job's own `attempts` wins."),
    "job_timeout_s": Flag(JOBS, "Seconds after which a run has failed; no limit by default."),
    "max_stalled_attempts": Flag(JOBS, "Workers a job may take down before it is dead-lettered."),
    "unknown_task_wait_s": Flag(JOBS, "Seconds a job of a task that no worker knows is kept before it is dead."),
    "max_payload_bytes": Flag(JOBS, "Larger jobs are dead-lettered. [1048576]"),
    "max_stream_len": Flag(
        JOBS, "Jobs in the stream before delayed jobs, retries and schedules wait: as for the queue."
    ),
    "dlq_max_stream_len": Flag(JOBS, "Dead letters kept; beyond, the oldest are dropped. [100000]"),
    "shutdown_deadline_s": Flag(PROCESSES, "Seconds running jobs may take after a signal.", ("--shutdown-s",)),
    "retry_initial_ms": Flag(RETRIES, "Milliseconds before the first retry.", least=0),
    "retry_multiplier": Flag(RETRIES, "How much longer each further retry waits."),
    "retry_max_ms": Flag(RETRIES, "The longest wait in milliseconds.", least=0),
    "retry_jitter_ms": Flag(RETRIES, "Up to so many random milliseconds are added.", least=0),
    "store_results": Flag(RESULTS, "Keep what handlers return."),
    "result_ttl_ms": Flag(RESULTS, "Milliseconds to keep results for. [3600000]"),
    "on_bad_result": Flag(RESULTS, "A job whose result cannot be stored is done without it, or dead."),
    "events_enabled": Flag(RESULTS, "Write the queue's events."),
    "events_max_stream_len": Flag(RESULTS, "Events kept; beyond, the oldest are dropped. [100000]"),
    "tracing": Flag(RESULTS, "Make OpenTelemetry spans for all runs, or none; by default for jobs that carry a trace."),
    "rate_limit_max": Flag(LIMITS, "Jobs started in each --rate-limit-duration-ms; no limit by default."),
    "rate_limit_duration_ms": Flag(LIMITS, "The time of --rate-limit-max in milliseconds."),
    "rate_limit_burst": Flag(LIMITS, "Jobs started at once after a quiet time; by default --rate-limit-max."),
    "max_running": Flag(LIMITS, "Jobs at a time; no limit by default."),
    "group": Flag(READING, "The consumer group."),
    "consumer_id": Flag(
        READING, "The worker's name in the group; further processes add their number. A new one by default."
    ),
    "claim_min_idle_ms": Flag(
        READING, "Milliseconds a worker may be silent before its jobs go to others. [30000]", ("--idle-ms",)
    ),
    "read_count": Flag(READING, "Jobs a read takes; by default as many as can start."),
    "read_block_ms": Flag(READING, "Milliseconds a read waits for the first job. [5000]"),
    "pause_poll_ms": Flag(READING, "Milliseconds until a pause of the queue is noticed."),
    "delayed_enabled": Flag(DUTIES, "Promote delayed jobs when they are due."),
    "promote_every_ms": Flag(DUTIES, "Milliseconds between two checks for due jobs."),
    "run_scheduler": Flag(DUTIES, "Fire due schedules."),
    "scheduler_tick_ms": Flag(DUTIES, "Milliseconds between two checks for due schedules. [1000]"),
    "stalled_detector_enabled": Flag(DUTIES, "Look for jobs of dead workers."),
}


def with_worker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Puts the flags in the place of a command's argument `options`, which gets their values by the names in FLAGS."""
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        options = {name: given.pop(name) for name in FLAGS}
        command(**given, options=options)

    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        parameters += _flags() if parameter.name == "options" else [parameter]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    called.__signature__ = own.replace(parameters=keywords)  # pyright: ignore[reportAttributeAccessIssue]
    return called


def worker_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """What `Worker` is called with, from the values of the flags."""
    names = [name for name in options if name in _RETRY]
    given = {name: value for name, value in options.items() if name not in _RETRY}
    if names:
        given["retry"] = RetryDefaults(**{_RETRY[name].name: options[name] for name in names})
    return given


def worker_parameters() -> dict[str, inspect.Parameter]:
    """The options of `Worker`, with the fields of its `retry` as options of their own."""
    hints = get_type_hints(Worker.__init__)
    found = {
        name: parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(Worker).parameters.items()
    }
    return found | _RETRY


def _flags() -> Iterator[inspect.Parameter]:
    parameters = worker_parameters()
    for name, flag in FLAGS.items():
        parameter = parameters[name]
        kind = parameter.annotation
        written = name.replace("_", "-")
        switch = kind in (bool, bool | None)
        least = flag.least if flag.least is not None else 1 if kind in (int, int | None) else 0
        option = typer.Option(
            f"--{written}/--no-{written}" if switch else f"--{written}",
            *flag.names,
            help=flag.help,
            rich_help_panel=flag.panel,
            min=least if kind in (int, int | None, float, float | None) else None,
        )
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=parameter.default, annotation=Annotated[kind, option]
        )


def _retry_parameters() -> Iterator[tuple[str, inspect.Parameter]]:
    hints = get_type_hints(RetryDefaults)
    for name, parameter in inspect.signature(RetryDefaults).parameters.items():
        yield f"retry_{name}", parameter.replace(annotation=hints[name])


_RETRY = dict(_retry_parameters())
