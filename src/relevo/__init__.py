"""relevo: work distribution in Python. The public names, nothing else."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relevo.compat.chasquimq.consumer import Consumer, RawJob
    from relevo.compat.chasquimq.producer import Producer
    from relevo.engine.admin.dead_letters import DeadLetter, DeadLetterFilter
    from relevo.engine.admin.job_pages import JobPage
    from relevo.engine.admin.job_search import FoundJob
    from relevo.engine.admin.maintenance import Removal
    from relevo.engine.admin.snapshot import QueueSnapshot
    from relevo.engine.consuming.batch import Batch
    from relevo.engine.consuming.handlers import Handler
    from relevo.engine.consuming.worker_health import WorkerHealth
    from relevo.engine.duties.standalone import PromoterProcess, Scheduler
    from relevo.engine.events.queue_events import QueueEvent, QueueEvents
    from relevo.engine.job.dedup import Dedup
    from relevo.engine.job.job import Job
    from relevo.engine.job.parent_result import ParentResult
    from relevo.engine.lanes.lanes import LaneLimit, Lanes, LaneState
    from relevo.engine.producing.flows import After, Flow, FlowRun, FlowState
    from relevo.engine.queue import Queue
    from relevo.engine.schedules.patterns import MissedFiresPolicy, RepeatableMeta, RepeatPattern
    from relevo.engine.sync_queue import SyncJob, SyncQueue
    from relevo.engine.tasks import Call, Task, TaskJob, Tasks
    from relevo.engine.tasks.dependencies import Depends, TaskContext
    from relevo.engine.worker import Worker
    from relevo.errors import NotSupportedError, QueueBusy, QueueFull, RateLimited, RelevoError, UnrecoverableError
    from relevo.metrics.health_server import HealthServer
    from relevo.metrics.metrics import Metrics
    from relevo.wire.backoff import BackoffSpec
    from relevo.wire.failure import Failure
    from relevo.wire.retry import RetryDefaults

__version__ = "0.1.0"


def version() -> str:
    """The version of relevo."""
    return __version__


__all__ = [
    "After",
    "BackoffSpec",
    "Batch",
    "Call",
    "Consumer",
    "DeadLetter",
    "DeadLetterFilter",
    "Dedup",
    "Depends",
    "Failure",
    "Flow",
    "FlowRun",
    "FlowState",
    "FoundJob",
    "Handler",
    "HealthServer",
    "Job",
    "JobPage",
    "LaneLimit",
    "LaneState",
    "Lanes",
    "Metrics",
    "MissedFiresPolicy",
    "NotSupportedError",
    "ParentResult",
    "Producer",
    "PromoterProcess",
    "Queue",
    "QueueBusy",
    "QueueEvent",
    "QueueEvents",
    "QueueFull",
    "QueueSnapshot",
    "RateLimited",
    "RawJob",
    "RelevoError",
    "Removal",
    "RepeatPattern",
    "RepeatableMeta",
    "RetryDefaults",
    "Scheduler",
    "SyncJob",
    "SyncQueue",
    "Task",
    "TaskContext",
    "TaskJob",
    "Tasks",
    "UnrecoverableError",
    "Worker",
    "WorkerHealth",
    "version",
]

if not TYPE_CHECKING:  # a checker knows the names from above, and must not be told that there may be others
    _HOMES = {
        "wire.backoff": "BackoffSpec",
        "engine.consuming.batch": "Batch",
        "compat.chasquimq.consumer": "Consumer RawJob",
        "engine.admin.dead_letters": "DeadLetter DeadLetterFilter",
        "engine.job.dedup": "Dedup",
        "engine.tasks.dependencies": "Depends TaskContext",
        "engine.events.queue_events": "QueueEvent QueueEvents",
        "engine.producing.flows": "After Flow FlowRun FlowState",
        "engine.job.parent_result": "ParentResult",
        "engine.consuming.handlers": "Handler",
        "engine.admin.job_pages": "JobPage",
        "engine.job.job": "Job",
        "engine.admin.job_search": "FoundJob",
        "engine.lanes.lanes": "LaneLimit Lanes LaneState",
        "engine.admin.maintenance": "Removal",
        "engine.schedules.patterns": "MissedFiresPolicy RepeatableMeta RepeatPattern",
        "compat.chasquimq.producer": "Producer",
        "engine.queue": "Queue",
        "engine.admin.snapshot": "QueueSnapshot",
        "engine.duties.standalone": "PromoterProcess Scheduler",
        "engine.sync_queue": "SyncJob SyncQueue",
        "engine.tasks": "Call Task TaskJob Tasks",
        "engine.worker": "Worker",
        "engine.consuming.worker_health": "WorkerHealth",
        "errors": "NotSupportedError QueueBusy QueueFull RateLimited RelevoError UnrecoverableError",
        "metrics.health_server": "HealthServer",
        "metrics.metrics": "Metrics",
        "wire.failure": "Failure",
        "wire.retry": "RetryDefaults",
    }

    def __getattr__(name: str) -> object:
        """A name is loaded when somebody first asks for it: what needs no Redis (`relevo.client`, `relevo work`) starts in a
        third of the time without it."""
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names.split():
                value = globals()[name] = getattr(import_module(f"relevo.{home}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """For those who look around: also what nobody has asked for yet."""
        return sorted({*globals(), *__all__})
