"""The names of a queue's keys. All share one hash tag, so a queue lives in one slot of a cluster."""

from __future__ import annotations

from functools import cached_property


class QueueKeys:
    """The keys of one queue, as bytes.

    >>> QueueKeys("emails").stream
    b'{chasqui:emails}:stream'
    >>> QueueKeys("emails").result("01J9")
    b'{chasqui:emails}:result:01J9'
    """

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.tag = b"{chasqui:" + queue.encode() + b"}"

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

    @cached_property
    def events(self) -> bytes:
        return self.tag + b":events"

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
    def paused(self) -> bytes:
        return self.tag + b":paused"

    @cached_property
    def limiter(self) -> bytes:
        return self.tag + b":limiter"

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

    def sent(self, producer: str) -> bytes:
        """How far a producer got: the number of its last write that arrived (ours alone, ChasquiMQ ignores it)."""
        return self.tag + b":sent:" + producer.encode()
