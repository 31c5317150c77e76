"""The settings of a worker, checked, and in the units that its parts want."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import get_args

from relevo.arguments import checked_name, flag, instance, positive, seconds
from relevo.engine.settling.bad_result import OnBadResult
from relevo.errors import BadArgument
from relevo.wire.limits import QueueLimits
from relevo.wire.retry import RetryDefaults

_CHECKS: dict[str, Callable[[str, object], object]] = {"int": positive, "bool": flag}
"""What every option of such a type is held to; the others have bounds of their own."""
_RETRY_REMEDY = "Pass RetryDefaults(initial_ms=..., max_ms=...); `max_attempts` says how often."


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """See `Worker` for what each one means and what it is when left out; None stands for the default below."""

    concurrency: int
    max_attempts: int
    group: str
    consumer_id: str | None
    read_block_ms: int | None
    read_count: int | None
    claim_min_idle_ms: int | None
    max_payload_bytes: int | None
    max_stream_len: int | None
    dlq_max_stream_len: int | None
    events_enabled: bool
    events_max_stream_len: int | None
    delayed_enabled: bool
    run_scheduler: bool
    scheduler_tick_ms: int | None
    store_results: bool
    result_ttl_ms: int | None
    retry: RetryDefaults | None
    max_stalled_attempts: int
    stalled_detector_enabled: bool
    shutdown_deadline_s: float
    promote_every_ms: int
    pause_poll_ms: int
    rate_limit_max: int | None
    rate_limit_duration_ms: int
    rate_limit_burst: int | None
    max_running: int | None
    job_timeout_s: float | None
    on_bad_result: OnBadResult
    unknown_task_wait_s: float
    tracing: bool | None
    limits: QueueLimits = field(init=False)
    """`max_stream_len`, `dlq_max_stream_len`, `events_max_stream_len` and `max_payload_bytes`, checked."""

    def __post_init__(self) -> None:
        for option in (each for each in fields(self) if each.init):
            value, (kind, _, optional) = getattr(self, option.name), str(option.type).partition(" | ")
            if kind in _CHECKS and not (value is None and optional):
                _CHECKS[kind](option.name, value)
        if self.rate_limit_burst is not None and self.rate_limit_max is None:
            reason, remedy = "there is no rate to exceed", "Pass `rate_limit_max` as well, or leave it out."
            raise BadArgument(argument="rate_limit_burst", value=self.rate_limit_burst, reason=reason, remedy=remedy)
        if self.job_timeout_s is not None:
            seconds("job_timeout_s", self.job_timeout_s)
        seconds("shutdown_deadline_s", self.shutdown_deadline_s, zero=True)
        checked_name("group", self.group)
        if self.consumer_id is not None:
            checked_name("consumer_id", self.consumer_id)
        seconds("unknown_task_wait_s", self.unknown_task_wait_s, zero=True)
        if self.on_bad_result not in get_args(OnBadResult):
            remedy = 'Pass "drop" (the job is done) or "dead".'
            raise BadArgument(argument="on_bad_result", value=self.on_bad_result, reason="unknown", remedy=remedy)
        object.__setattr__(
            self,
            "limits",
            QueueLimits.given(
                max_stream_len=self.max_stream_len,
                dlq_max_stream_len=self.dlq_max_stream_len,
                events_max_stream_len=self.events_max_stream_len,
                max_payload_bytes=self.max_payload_bytes,
            ),
        )
        retry = (
            RetryDefaults()
            if self.retry is None
            else instance("retry", self.retry, RetryDefaults, remedy=_RETRY_REMEDY)
        )
        object.__setattr__(self, "retry", retry)
        # Settled once: every part of one worker must know the same consumer.
        object.__setattr__(self, "consumer_id", self.consumer_id or f"c-{uuid.uuid4()}")

    @staticmethod
    def names() -> list[str]:
        """The names of all options, as `Worker` takes them."""
        return [each.name for each in fields(WorkerOptions) if each.init]

    @property
    def limited(self) -> bool:
        """Whether the queue has limits over all its workers."""
        return bool(self.rate_limit_max or self.max_running)

    @property
    def retry_defaults(self) -> RetryDefaults:
        assert self.retry is not None, "set above"
        return self.retry

    @property
    def consumer(self) -> str:
        return str(self.consumer_id)

    @property
    def block_ms(self) -> int:
        return self.read_block_ms or 5000

    @property
    def idle_s(self) -> float:
        return (self.claim_min_idle_ms or 30_000) / 1000

    @property
    def scheduler_tick_s(self) -> float:
        return (self.scheduler_tick_ms or 1000) / 1000

    @property
    def result_ttl_s(self) -> int:
        return -(-(self.result_ttl_ms or 3_600_000) // 1000)
