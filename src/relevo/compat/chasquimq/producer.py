"""ChasquiMQ's low-level producer: a queue whose payloads are bytes that the caller has encoded."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from relevo.arguments import positive, texts
from relevo.broker.address import CredentialProvider
from relevo.engine.queue import Queue
from relevo.engine.schedules.patterns import RepeatableMeta
from relevo.errors import BadArgument, WrongType
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import RAW

_OPTIONS = frozenset({"id", "name", "retry"})
_RETRY = frozenset({"max_attempts", "backoff"})
_SPEC = frozenset(
    {"key", "job_name", "pattern", "payload", "limit", "start_after_ms", "end_before_ms", "missed_fires", "retry"}
)


class _RawQueue(Queue):
    _codec = RAW


class Producer:
    """Adds jobs with raw payloads; for code written against ChasquiMQ's class of this name.

        producer = Producer("redis://127.0.0.1:6379", "emails")
        job_id = await producer.add(msgpack.packb({"to": "ada@example.org"}))

    Workers decode payloads as msgpack, so a payload that is none reaches only a `Consumer`. Options are dicts of `id`,
    `name` and `retry` (itself of `max_attempts` and `backoff`). New code is better off with `Queue`.
    """

    def __init__(
        self,
        redis_url: str,
        queue_name: str,
        *,
        pool_size: int | None = None,
        max_stream_len: int | None = None,
        max_delay_secs: int | None = None,
        credential_provider: CredentialProvider | None = None,
    ) -> None:
        if pool_size is not None:
            positive("pool_size", pool_size)  # one pipelined connection carries what a pool would; nothing to size
        self.queue: Queue = _RawQueue(
            queue_name,
            redis_url=redis_url,
            max_stream_len=max_stream_len,
            max_delay_secs=max_delay_secs,
            credential_provider=credential_provider,
        )
        self._keys = QueueKeys(queue_name)
        self._id = str(uuid.uuid4())

    # --- names -----------------------------------------------------------------------------------------------------------

    def stream_key(self) -> str:
        return self._keys.stream.decode()

    def delayed_key(self) -> str:
        return self._keys.delayed.decode()

    def dlq_key(self) -> str:
        return self._keys.dead.decode()

    def producer_id(self) -> str:
        """Names this object, in logs of the caller; the wire does not carry it."""
        return self._id

    # --- adding ----------------------------------------------------------------------------------------------------------

    async def add(self, payload: bytes) -> str:
        return await self._add(payload, {})

    async def add_with_options(self, payload: bytes, opts: Mapping[str, Any]) -> str:
        return await self._add(payload, opts)

    async def add_in(self, delay_ms: int, payload: bytes) -> str:
        return await self._add(payload, {}, delay_ms)

    async def add_in_with_options(self, delay_ms: int, payload: bytes, opts: Mapping[str, Any]) -> str:
        return await self._add(payload, opts, delay_ms)

    async def add_at(self, when_ms: int, payload: bytes) -> str:
        """Adds a job for an instant in epoch milliseconds; one that has passed means now."""
        return await self._add(payload, {}, _wait_until(when_ms))

    async def add_at_with_options(self, when_ms: int, payload: bytes, opts: Mapping[str, Any]) -> str:
        return await self._add(payload, opts, _wait_until(when_ms))

    async def add_bulk(self, payloads: Sequence[bytes]) -> list[str]:
        return await self._add_all([("", payload) for payload in payloads], {})

    async def add_bulk_with_options(self, payloads: Sequence[bytes], opts: Mapping[str, Any]) -> list[str]:
        """Adds them all with the same options; an `id` is for one job, so it needs a single payload."""
        if opts.get("id") is not None and len(payloads) > 1:
            reason, remedy = f"{len(payloads)} payloads share it", "Add them one by one, each with an id of its own."
            raise BadArgument(argument="opts id", value=opts["id"], reason=reason, remedy=remedy)
        return await self._add_all([(opts.get("name") or "", payload) for payload in payloads], opts)

    async def add_bulk_named(self, items: Sequence[tuple[str, bytes]]) -> list[str]:
        return await self._add_all(items, {})

    async def add_in_bulk(self, delay_ms: int, payloads: Sequence[bytes]) -> list[str]:
        return await self._add_all([("", payload) for payload in payloads], {}, delay_ms)

    async def cancel_delayed(self, job_id: str) -> bool:
        return await self.queue.cancel_delayed(job_id)

    async def cancel_delayed_bulk(self, job_ids: Sequence[str]) -> list[bool]:
        return list(await asyncio.gather(*(self.queue.cancel_delayed(job_id) for job_id in texts("job_ids", job_ids))))

    # --- dead letters and results ------------------------------------------------------------------------------------------

    async def peek_dlq(self, limit: int) -> list[dict[str, Any]]:
        return await self.queue.peek_dlq(limit)

    async def replay_dlq(self, limit: int) -> int:
        return await self.queue.replay_dlq(limit)

    async def get_result(self, id: str) -> bytes | None:  # noqa: A002 - the name is part of the API we are compatible with
        return await self.queue.get_job_result(id)

    async def get_result_bulk(self, ids: Sequence[str]) -> list[bytes | None]:
        return await self.queue.get_job_result_bulk(ids)

    # --- schedules -----------------------------------------------------------------------------------------------------------

    async def upsert_repeatable(self, spec: Mapping[str, Any]) -> str:
        """Makes or replaces a schedule from its dict form (`job_name`, `pattern` and `payload` at least); returns its key."""
        _refuse_unknown("spec", spec, _SPEC)
        for needed in ("job_name", "pattern", "payload"):
            if spec.get(needed) is None:
                remedy = f"Add {needed!r} to it."
                raise BadArgument(argument="spec", value=dict(spec), reason=f"no {needed!r}", remedy=remedy)
        meta = await self.queue.repeatables.upsert_repeatable(
            spec["job_name"],
            spec["payload"],
            repeat=spec["pattern"],
            key=spec.get("key") or None,
            limit=spec.get("limit"),
            start_after_ms=spec.get("start_after_ms"),
            end_before_ms=spec.get("end_before_ms"),
            missed_fires=spec.get("missed_fires"),
            **_retry(spec),
        )
        return meta.key

    async def list_repeatable(self, limit: int) -> list[dict[str, Any]]:
        return [_listed(meta) for meta in await self.queue.get_repeatable_jobs(limit)]

    async def remove_repeatable_by_key(self, key: str) -> bool:
        return await self.queue.remove_repeatable_by_key(key)

    # --- life ----------------------------------------------------------------------------------------------------------------

    async def shutdown(self) -> None:
        """Waits for adds under way and closes the connection."""
        await self.queue.close()

    async def _add(self, payload: bytes, opts: Mapping[str, Any], delay_ms: int | None = None) -> str:
        _refuse_unknown("opts", opts, _OPTIONS)
        job = await self.queue.add(
            opts.get("name") or "", payload, delay_ms=delay_ms, job_id=opts.get("id"), **_retry(opts)
        )
        return job.id

    async def _add_all(
        self, items: Sequence[tuple[str, bytes]], opts: Mapping[str, Any], delay_ms: int | None = None
    ) -> list[str]:
        _refuse_unknown("opts", opts, _OPTIONS)
        shared = {"delay_ms": delay_ms, "job_id": opts.get("id"), **_retry(opts)}
        jobs = await self.queue.add_bulk([{"name": name, "data": payload, **shared} for name, payload in items])
        return [job.id for job in jobs]


def _retry(form: Mapping[str, Any]) -> dict[str, Any]:
    retry = form.get("retry")
    if retry is None:
        return {}
    _refuse_unknown("retry", retry, _RETRY)
    return {"attempts": retry.get("max_attempts"), "backoff": retry.get("backoff")}


def _refuse_unknown(argument: str, form: object, known: frozenset[str]) -> None:
    """ChasquiMQ ignores an option it does not know, and with it every misspelt one."""
    if not isinstance(form, Mapping):
        raise WrongType(argument=argument, value=form, expected="dict")
    unknown = sorted(set(map(str, form)) - known)  # pyright: ignore[reportUnknownArgumentType] - the keys are checked
    if unknown:
        remedy = f"Use {', '.join(sorted(known))}."
        raise BadArgument(argument=argument, value=dict(form), reason=f"unknown {unknown}", remedy=remedy)  # pyright: ignore[reportUnknownArgumentType]


def _wait_until(when_ms: int) -> int:
    return max(0, positive("when_ms", when_ms, zero=True) - time.time_ns() // 1_000_000)


def _listed(meta: RepeatableMeta) -> dict[str, Any]:
    return {
        "key": meta.key,
        "job_name": meta.job_name,
        "pattern": meta.pattern.to_dict(),
        "next_fire_ms": meta.next_fire_ms,
        "limit": meta.limit,
        "start_after_ms": meta.start_after_ms,
        "end_before_ms": meta.end_before_ms,
        "missed_fires": None if meta.missed_fires is None else meta.missed_fires.to_dict(),
    }
