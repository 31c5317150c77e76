"""The settings of a worker, checked: what was left out has its default here."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from relevo.engine.validation import positive
from relevo.errors import BadArgument
from relevo.wire.retry import RetryDefaults


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """See `Worker` for what each one means; None stands for the default.

    >>> WorkerSettings(result_ttl_ms=1500).result_ttl_s
    2
    """

    concurrency: int = 100
    max_attempts: int = 25
    group: str = "default"
    consumer_id: str | None = None
    read_block_ms: int | None = None
    read_count: int | None = None
    claim_min_idle_ms: int | None = None
    max_payload_bytes: int | None = None
    dlq_max_stream_len: int | None = None
    events_enabled: bool = True
    delayed_enabled: bool = True
    run_scheduler: bool = True
    scheduler_tick_ms: int | None = None
    store_results: bool = False
    result_ttl_ms: int | None = None
    retry: RetryDefaults = field(default_factory=RetryDefaults)
    max_stalled_attempts: int = 2
    stalled_detector_enabled: bool = True
    shutdown_deadline_s: float = 30.0
    promote_every_ms: int = 100
    pause_poll_ms: int = 250
    rate_limit_max: int | None = None
    rate_limit_duration_ms: int = 1000
    max_running: int | None = None
    job_timeout_s: float | None = None
    tracing: bool | None = None
    plain_transport: bool = False

    def __post_init__(self) -> None:
        for argument in (
            "read_block_ms",
            "read_count",
            "claim_min_idle_ms",
            "max_payload_bytes",
            "dlq_max_stream_len",
            "scheduler_tick_ms",
            "result_ttl_ms",
            "max_stalled_attempts",
            "promote_every_ms",
            "pause_poll_ms",
            "rate_limit_max",
            "rate_limit_duration_ms",
            "max_running",
        ):
            value: object = getattr(self, argument)
            if value is not None:
                positive(argument, value)
        positive("max_attempts", self.max_attempts, zero=True)
        positive("concurrency", self.concurrency, zero=True)
        if self.job_timeout_s is not None and not self.job_timeout_s > 0:
            remedy = "Pass seconds, or leave it out."
            raise BadArgument(argument="job_timeout_s", value=self.job_timeout_s, reason="no time", remedy=remedy)
        # Settled once: every part of one worker must know the same consumer.
        object.__setattr__(self, "consumer_id", self.consumer_id or f"c-{uuid.uuid4()}")

    @property
    def consumer(self) -> str:
        return str(self.consumer_id)

    @property
    def slots(self) -> int:
        return max(1, self.concurrency)

    @property
    def block_ms(self) -> int:
        return self.read_block_ms or 5000

    @property
    def idle_s(self) -> float:
        return (self.claim_min_idle_ms or 30_000) / 1000

    @property
    def max_payload(self) -> int:
        return self.max_payload_bytes or 1_048_576

    @property
    def dlq_cap(self) -> int:
        return self.dlq_max_stream_len or 100_000

    @property
    def scheduler_tick_s(self) -> float:
        return (self.scheduler_tick_ms or 1000) / 1000

    @property
    def result_ttl_s(self) -> int:
        return -(-(self.result_ttl_ms or 3_600_000) // 1000)
