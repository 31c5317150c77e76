"""The names of a queue's keys. All share one hash tag, so a queue lives in one slot of a cluster."""

from __future__ import annotations

from functools import cached_property

REGISTRY_TAG = b"{chasqui:}"
REGISTRY = REGISTRY_TAG + b":queues"
"""The names of the queues that relevo writes to (ours alone). The tag is that of no queue: none has an empty name."""


class QueueKeys:
    """The keys of one queue, as bytes.

    >>> QueueKeys("emails").stream
    b'{chasqui:emails}:stream'
    >>> QueueKeys("emails").result("01J9")
    b'{chasqui:emails}:result:01J9'
    """

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.tag: bytes = b"{chasqui:" + queue.encode() + b"}"

    @cached_property
    def stream(self) -> bytes:
        return self.tag + b":stream"

    @cached_property
    def dead(self) -> bytes:
        return self.tag + b":dlq"

    @cached_property
    def delayed(self) -> bytes:
        return self.tag + b":delayed"

    @cached_property
    def repeat(self) -> bytes:
        return self.tag + b":repeat"

    @cached_property
    def repeat_paused(self) -> bytes:
        """Schedules that are set aside, by the score they had (ours alone: ChasquiMQ's schedulers do not look here)."""
        return self.tag + b":repeat:paused"

    @property
    def repeat_declared(self) -> bytes:
        """Schedules that code declares, by when a worker last said so."""
        return self.tag + b":repeat:declared"

    @cached_property
    def events(self) -> bytes:
        return self.tag + b":events"

    @cached_property
    def relayed(self) -> bytes:
        """Rows of the outbox whose events are in `events`, by when they came (of work queues; ours alone)."""
        return self.tag + b":relayed"

    @cached_property
    def promoter_lock(self) -> bytes:
        return self.tag + b":promoter:lock"

    @cached_property
    def scheduler_lock(self) -> bytes:
        return self.tag + b":scheduler:lock"

    @cached_property
    def stalled_lock(self) -> bytes:
        return self.tag + b":stalled:lock"

    @cached_property
    def places(self) -> bytes:
        """Entries that run within the queue's concurrency limit, by when their place is free again (ours alone)."""
        return self.tag + b":places"

    @cached_property
    def cancelled(self) -> bytes:
        """Ids of jobs that are to be cancelled, by when the mark is forgotten (ours alone)."""
        return self.tag + b":cancelled"

    @cached_property
    def notes(self) -> bytes:
        """What relevo knows about a job beyond its envelope (ours alone), by job id."""
        return self.tag + b":notes"

    @cached_property
    def lanes(self) -> bytes:
        """Lanes with work, in the order of their turns (ours alone)."""
        return self.tag + b":lanes"

    @cached_property
    def lanes_later(self) -> bytes:
        """Lanes that wait for a time, by that time (ours alone)."""
        return self.tag + b":lanes:later"

    @cached_property
    def lane_limits(self) -> bytes:
        return self.tag + b":lanes:limits"

    @cached_property
    def lanes_lock(self) -> bytes:
        return self.tag + b":lanes:lock"

    def lane(self, lane: str) -> bytes:
        """The jobs of one lane that wait for their turn, oldest first."""
        return self.tag + b":lane:" + lane.encode()

    def flying(self, lane: str) -> bytes:
        """Ids of the jobs of one lane that have left it and are not finished."""
        return self.tag + b":flying:" + lane.encode()

    @cached_property
    def lane_sizes(self) -> bytes:
        """How many jobs wait in each lane, and under the empty name in all of them (ours alone)."""
        return self.tag + b":lanes:sizes"

    def flow(self, flow_id: str) -> bytes:
        """The state of one flow (ours alone); expires some time after the flow has ended."""
        return self.tag + b":flow:" + flow_id.encode()

    def dedup(self, key: str) -> bytes:
        return self.tag + b":dedup:" + key.encode()

    @cached_property
    def paused(self) -> bytes:
        return self.tag + b":paused"

    @cached_property
    def limiter(self) -> bytes:
        return self.tag + b":limiter"

    @cached_property
    def starts(self) -> bytes:
        """When jobs have started within the queue's rate, and how many (ours alone)."""
        return self.tag + b":starts"

    def repeat_spec(self, key: str) -> bytes:
        return self.tag + b":repeat:spec:" + key.encode()

    def once(self, job_id: str) -> bytes:
        """The marker that makes an add with a caller's id idempotent."""
        return self.tag + b":dlid:" + job_id.encode()

    def member_of(self, job_id: str) -> bytes:
        """Where the delayed member of a job with a caller's id is kept, so that it can be cancelled."""
        return self.tag + b":didx:" + job_id.encode()

    def result(self, job_id: str) -> bytes:
        return self.tag + b":result:" + job_id.encode()

    def progress(self, job_id: str) -> bytes:
        return self.tag + b":progress:" + job_id.encode()

    def log(self, job_id: str) -> bytes:
        return self.tag + b":log:" + job_id.encode()

    def failure(self, job_id: str) -> bytes:
        """How the last run of a job failed, while it lives (ours alone)."""
        return self.tag + b":failure:" + job_id.encode()

    def refused(self, job_id: str) -> bytes:
        """That workers without its task have refused a job, and since when (ours alone)."""
        return self.tag + b":refused:" + job_id.encode()

    @cached_property
    def cap(self) -> bytes:
        """How many jobs the stream may hold, as its producers were told (ours alone)."""
        return self.tag + b":cap"

    def sent(self, producer: str) -> bytes:
        """Which of a producer's writes arrived, by their numbers (ours alone, ChasquiMQ ignores it)."""
        return self.tag + b":sent:" + producer.encode()
