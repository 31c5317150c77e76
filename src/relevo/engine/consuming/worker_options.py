"""The options of a worker: each with its default, its limits and what it means.

`Worker` names them once more, for editors and type checkers. The flags of `relevo worker` and docs/options.md are made of
these.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from relevo.arguments import instance
from relevo.engine.settling.bad_result import OnBadResult, checked_on_bad_result
from relevo.errors import BadArgument
from relevo.options import check, option
from relevo.wire.limits import QueueLimits
from relevo.wire.retry import RETRIES, RetryDefaults

JOBS = "Jobs"
RESULTS = "Results, events and traces"
LIMITS = "Limits over all workers of a queue"
READING = "Reading from Redis"
DUTIES = "Duties that one worker of all does"
PROCESSES = "Processes"

_RETRY_REMEDY = "Pass RetryDefaults(initial_ms=..., max_ms=...); `max_attempts` says how often."


def _retry_defaults(argument: str, value: object) -> None:
    instance(argument, value, RetryDefaults, remedy=_RETRY_REMEDY)


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """What `Worker` takes beside its queue, its handler and the address."""

    concurrency: int = option(100, "Jobs at a time, for each queue.", topic=JOBS)
    max_attempts: int = option(
        25, "Runs before a failing job is dead-lettered; a job's own `attempts` wins.", topic=JOBS
    )
    job_timeout_s: float | None = option(None, "Seconds after which a run has failed; no limit by default.", topic=JOBS)
    max_stalled_attempts: int = option(2, "Workers a job may take down before it is dead-lettered.", topic=JOBS)
    unknown_task_wait_s: float = option(
        600.0, "Seconds a job of a task that no worker knows is kept before it is dead.", topic=JOBS, zero=True
    )
    max_payload_bytes: int = option(
        QueueLimits.max_payload_bytes,
        "Jobs of more bytes are dead-lettered as `oversize_payload`.",
        topic=JOBS,
        none=True,
    )
    max_stream_len: int | None = option(
        None,
        "Jobs in the stream before delayed jobs, retries and schedules wait; by default as for the queue.",
        topic=JOBS,
    )
    dlq_max_stream_len: int = option(
        QueueLimits.dlq_max_stream_len, "Dead letters kept; beyond, the oldest are dropped.", topic=JOBS, none=True
    )
    shutdown_deadline_s: float = option(
        30.0, "Seconds running jobs may take after the first signal.", topic=PROCESSES, zero=True
    )
    retry: RetryDefaults = option(
        RetryDefaults(),
        "`RetryDefaults(…)`: when a failed job is tried again; a job's own `backoff` wins.",
        topic=RETRIES,
        none=True,
        check=_retry_defaults,
    )
    store_results: bool = option(False, "Keep what handlers return.", topic=RESULTS)
    result_ttl_ms: int = option(3_600_000, "Milliseconds to keep results for.", topic=RESULTS, none=True)
    on_bad_result: OnBadResult = option(
        "drop",
        "A job whose result cannot be stored is done without it, or dead.",
        topic=RESULTS,
        check=checked_on_bad_result,
    )
    events_enabled: bool = option(True, "Write the queue's events.", topic=RESULTS)
    events_max_stream_len: int = option(
        QueueLimits.events_max_stream_len,
        "Events kept; beyond, the oldest are dropped. Let it hold more than comes between two readings of a pipeline.",
        topic=RESULTS,
        none=True,
    )
    tracing: bool | None = option(
        None, "OpenTelemetry spans for all runs, or none; by default for jobs that carry a trace.", topic=RESULTS
    )
    rate_limit_max: int | None = option(
        None, "Jobs started in each `rate_limit_duration_ms`; no limit by default.", topic=LIMITS
    )
    rate_limit_duration_ms: int = option(1000, "The time of `rate_limit_max` in milliseconds.", topic=LIMITS)
    rate_limit_burst: int | None = option(
        None, "Jobs started at once after a quiet time; by default `rate_limit_max`.", topic=LIMITS
    )
    max_running: int | None = option(None, "Jobs at a time; no limit by default.", topic=LIMITS)
    group: str = option("default", "The consumer group.", topic=READING)
    consumer_id: str | None = option(
        None, "The worker's name in the group, a new one by default; further processes add their number.", topic=READING
    )
    claim_min_idle_ms: int = option(
        30_000, "Milliseconds a worker may be silent before its jobs go to others.", topic=READING, none=True
    )
    read_count: int | None = option(None, "Jobs a read takes; by default as many as can start.", topic=READING)
    read_block_ms: int = option(5000, "Milliseconds a read waits for the first job.", topic=READING, none=True)
    pause_poll_ms: int = option(250, "Milliseconds until a pause of the queue is noticed.", topic=READING)
    delayed_enabled: bool = option(True, "Promote delayed jobs when they are due.", topic=DUTIES)
    promote_every_ms: int = option(
        100, "Milliseconds between two checks for due jobs, when none is known to be due sooner.", topic=DUTIES
    )
    run_scheduler: bool = option(True, "Fire due schedules.", topic=DUTIES)
    scheduler_tick_ms: int = option(1000, "Milliseconds between two checks for due schedules.", topic=DUTIES, none=True)
    stalled_detector_enabled: bool = option(True, "Look for jobs of dead workers.", topic=DUTIES)
    consumer: str = field(init=False)
    """`consumer_id`, or a new name: settled once, since every part of one worker must know the same consumer."""

    def __post_init__(self) -> None:
        check(self)
        if self.rate_limit_burst is not None and self.rate_limit_max is None:
            reason, remedy = "there is no rate to exceed", "Pass `rate_limit_max` as well, or leave it out."
            raise BadArgument(argument="rate_limit_burst", value=self.rate_limit_burst, reason=reason, remedy=remedy)
        object.__setattr__(self, "consumer", self.consumer_id or f"c-{uuid.uuid4()}")

    @property
    def limited(self) -> bool:
        """Whether the queue has limits over all its workers."""
        return bool(self.rate_limit_max or self.max_running)

    @property
    def idle_s(self) -> float:
        return self.claim_min_idle_ms / 1000

    @property
    def result_ttl_s(self) -> int:
        return -(-self.result_ttl_ms // 1000)
