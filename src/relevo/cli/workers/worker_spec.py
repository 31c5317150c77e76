"""What a worker process is to do: from the command line, or as JSON from the supervisor that started it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from relevo.engine.bad_result import OnBadResult


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker process is to do; travels to the children of a supervisor as JSON.

    >>> WorkerSpec.read(WorkerSpec("app:tasks", ("emails",), "redis://127.0.0.1:6379").written).queues
    ('emails',)
    """

    target: str
    queues: tuple[str, ...]
    redis_url: str
    concurrency: int = 100
    max_attempts: int = 25
    idle_ms: int | None = None
    store_results: bool = False
    on_bad_result: OnBadResult = "drop"
    unknown_task_wait_s: float = 600.0
    shutdown_s: float = 30.0
    max_jobs: int | None = None
    max_rss_mb: int | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    log_level: str = "INFO"
    json_logs: bool = False

    @property
    def written(self) -> str:
        return json.dumps(asdict(self))

    def for_child(self, number: int) -> WorkerSpec:
        """The same for one child of a supervisor, counted from 1: each answers on a port of its own, one after the other."""
        shared = self.metrics_port or None  # 0 finds a free one for each
        return self if shared is None else replace(self, metrics_port=shared + number - 1)

    @staticmethod
    def read(text: str) -> WorkerSpec:
        spec = WorkerSpec(**json.loads(text))
        return replace(spec, queues=tuple(spec.queues))
