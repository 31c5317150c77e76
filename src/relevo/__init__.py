"""relevo: work distribution in Python. The public names, nothing else."""

from relevo.engine.backoff import BackoffSpec
from relevo.engine.consumer import Consumer, RawJob
from relevo.engine.dead_letters import DeadLetter, DeadLetterFilter
from relevo.engine.dedup import Dedup
from relevo.engine.events import QueueEvent, QueueEvents
from relevo.engine.job import Job
from relevo.engine.lanes import LaneLimit, Lanes, LaneState
from relevo.engine.patterns import MissedFiresPolicy, RepeatableMeta, RepeatPattern
from relevo.engine.producer import Producer
from relevo.engine.queue import Queue
from relevo.engine.runner import Handler
from relevo.engine.standalone import PromoterProcess, Scheduler
from relevo.engine.worker import Worker, WorkerHealth
from relevo.errors import NotSupportedError, QueueFull, RateLimited, RelevoError, UnrecoverableError
from relevo.wire.retry import RetryDefaults

__version__ = "0.1.0"


def version() -> str:
    """The version of relevo."""
    return __version__


__all__ = [
    "BackoffSpec",
    "Consumer",
    "DeadLetter",
    "DeadLetterFilter",
    "Dedup",
    "Handler",
    "Job",
    "LaneLimit",
    "LaneState",
    "Lanes",
    "MissedFiresPolicy",
    "NotSupportedError",
    "Producer",
    "PromoterProcess",
    "Queue",
    "QueueEvent",
    "QueueEvents",
    "QueueFull",
    "RateLimited",
    "RawJob",
    "RelevoError",
    "RepeatPattern",
    "RepeatableMeta",
    "RetryDefaults",
    "Scheduler",
    "UnrecoverableError",
    "Worker",
    "WorkerHealth",
    "version",
]
