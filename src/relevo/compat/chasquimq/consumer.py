"""ChasquiMQ's low-level consumer: a worker whose handler gets the payload as bytes and decodes it itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from relevo.broker.address import CredentialProvider
from relevo.engine.job.job import Job
from relevo.engine.worker import Worker
from relevo.errors import BadArgument
from relevo.wire.payload import RAW


@dataclass(frozen=True, slots=True)
class RawJob:
    """A job whose payload nobody has decoded. `attempt` counts from 0."""

    id: str
    name: str
    payload: bytes
    created_at_ms: int
    attempt: int


RawHandler = Callable[[RawJob], Awaitable[Any]]


class _RawWorker(Worker):
    _codec = RAW


class Consumer:
    """Runs a handler on the raw jobs of one queue; for code written against ChasquiMQ's class of this name.

        consumer = Consumer("redis://127.0.0.1:6379", "emails", concurrency=10)
        await consumer.run(handle)

    Bytes that the handler returns are the job's result (with `store_results`); whatever else it returns is not kept. New
    code is better off with `Worker`, which decodes, and does everything else the same.
    """

    def __init__(
        self,
        redis_url: str,
        queue_name: str,
        *,
        concurrency: int = 1,
        max_attempts: int = 25,
        group: str = "default",
        consumer_id: str | None = None,
        read_block_ms: int | None = None,
        read_count: int | None = None,
        claim_min_idle_ms: int | None = None,
        max_payload_bytes: int | None = None,
        dlq_max_stream_len: int | None = None,
        events_enabled: bool = True,
        delayed_enabled: bool = True,
        run_scheduler: bool = True,
        scheduler_tick_ms: int | None = None,
        store_results: bool = False,
        result_ttl_ms: int | None = None,
        credential_provider: CredentialProvider | None = None,
    ) -> None:
        self._handler: RawHandler | None = None
        self.worker: Worker = _RawWorker(
            queue_name,
            self._handle,
            redis_url=redis_url,
            concurrency=concurrency,
            max_attempts=max_attempts,
            group=group,
            consumer_id=consumer_id,
            read_block_ms=read_block_ms,
            read_count=read_count,
            claim_min_idle_ms=claim_min_idle_ms,
            max_payload_bytes=max_payload_bytes,
            dlq_max_stream_len=dlq_max_stream_len,
            events_enabled=events_enabled,
            delayed_enabled=delayed_enabled,
            run_scheduler=run_scheduler,
            scheduler_tick_ms=scheduler_tick_ms,
            store_results=store_results,
            result_ttl_ms=result_ttl_ms,
            credential_provider=credential_provider,
        )
        """The worker underneath, with its signals and its health."""

    async def run(self, handler: RawHandler) -> None:
        """Works until `shutdown()`, SIGINT or SIGTERM."""
        if self._handler is not None and handler is not self._handler:
            remedy = "Make a Consumer for each handler."
            raise BadArgument(argument="handler", value=handler, reason="another one runs already", remedy=remedy)
        self._handler = handler
        await self.worker.run()

    def shutdown(self) -> None:
        """Asks it to end; returns at once. Await `run()` to know that it has."""
        self.worker.close()

    async def _handle(self, job: Job) -> bytes | None:
        assert self._handler is not None
        result = await self._handler(RawJob(job.id, job.name, job.data, job.created_at_ms, job.attempt))
        return bytes(result) if isinstance(result, bytes | bytearray) and result else None
