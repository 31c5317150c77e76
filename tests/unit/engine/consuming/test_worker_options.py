"""Every option of a worker is known in one place."""

import inspect

from relevo import Queue, Worker
from relevo.engine.consuming.worker_options import WorkerOptions
from relevo.wire.limits import QueueLimits

OF_THE_CONNECTION = {"self", "queue_name", "handler", "redis_url", "tls", "credential_provider"}


def test_a_worker_takes_every_option_and_no_other() -> None:
    assert set(inspect.signature(Worker.__init__).parameters) - OF_THE_CONNECTION == set(WorkerOptions.names())


def test_limits_left_out_are_the_same_for_queue_and_worker() -> None:
    async def handle(_: object) -> None: ...

    queue, worker = Queue("emails"), Worker("emails", handle)
    assert queue._limits == worker._settings.limits == QueueLimits()  # pyright: ignore[reportPrivateUsage]
