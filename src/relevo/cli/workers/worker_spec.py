"""What a worker process is to do: from the command line, or as JSON from the supervisor that started it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker process is to do; travels to the children of a supervisor as JSON.

    >>> WorkerSpec.read(WorkerSpec("app:tasks", ("emails",), "redis://127.0.0.1:6379").written).queues
    ('emails',)
    """

    target: str
    queues: tuple[str, ...]
    redis_url: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values of the flags that worker_options.py describes."""
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
        """The same for one child of a supervisor, counted from 1: those after the first have a name and a port of their own."""
        port, name = self.metrics_port, self.options.get("consumer_id")
        if number > 1 and port:  # 0 finds a free one for each
            port += number - 1
        if number > 1 and name is not None:
            name = f"{name}-{number}"
        return replace(self, metrics_port=port, options={**self.options, "consumer_id": name})

    @staticmethod
    def read(text: str) -> WorkerSpec:
        spec = WorkerSpec(**json.loads(text))
        return replace(spec, queues=tuple(spec.queues))
