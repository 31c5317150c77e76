"""A duty in a process of its own: `Scheduler` fires schedules, `PromoterProcess` moves due jobs, for workers that do neither.

Any number of them may run, next to workers or apart: a lock in Redis makes one of them the leader, the others wait.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence

from relevo.arguments import checked_name, checked_queue_name, flag, positive
from relevo.broker.address import Address, CredentialProvider
from relevo.broker.link import Link
from relevo.broker.scripts import Script
from relevo.engine.duties.promoter import BATCH, PROMOTE, Promoter, PromoterTick
from relevo.engine.schedules.scheduler import SCRIPTS as SCHEDULER_SCRIPTS
from relevo.engine.schedules.scheduler import SchedulerService, SchedulerTick
from relevo.engine.service.leader_loop import HOLD_LOCK, RELEASE_LOCK
from relevo.engine.service.loop import Loop
from relevo.engine.service.service import Service
from relevo.engine.service.signals import Signal
from relevo.wire.keys import QueueKeys
from relevo.wire.limits import QueueLimits

log = logging.getLogger("relevo.standalone")

_LAST_WORDS_S = 5.0


class Standalone(Service):
    """What the two share: they do one duty until told to end, then give the lock up so that the next leader need not wait for
    it. They wait for a Redis that is not there yet, and for one that goes away; `run` raises `ServerRefused` when it turns us
    away."""

    def __init__(self, link: Link, duty: Loop, queue: str) -> None:
        super().__init__(queue, task_name=f"relevo-{duty.name}-process")
        self._link = link
        self._duty = duty

    def shutdown(self) -> None:
        """Asks it to end, from any thread; returns at once. Await `run()` to know that it has."""
        self._ask_to_end()

    async def _work(self, ending: asyncio.Event) -> None:
        ended = asyncio.ensure_future(ending.wait())
        try:
            # A refusal ends us here, where the operator sees it; later on it may pass, so the duty keeps trying.
            signed_in = asyncio.ensure_future(self._link.ready())
            await asyncio.wait([signed_in, ended], return_when=asyncio.FIRST_COMPLETED)
            if not signed_in.done():
                signed_in.cancel()
                return
            signed_in.result()
            self._duty.start()
            await ended
            await self._stop_duty()
        finally:
            ended.cancel()
            await self._link.close()

    async def _stop_duty(self) -> None:
        try:
            if self._link.up:
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self._duty.stop()
                return
        except TimeoutError:
            pass
        log.warning("queue %s: Redis does not answer; the %s's lock runs out by itself", self.name, self._duty.name)
        self._duty.cancel()

    def _signalled(self, name: str) -> None:
        log.warning("%s: the %s of queue %s ends", name, self._duty.name, self.name)
        self.shutdown()


class Scheduler(Standalone):
    """Fires the schedules of one queue, for fleets whose workers run with `run_scheduler=False`.

        await Scheduler("redis://127.0.0.1:6379", "emails").run()

    `fired` and `leading` tell what it does. The arguments are those of ChasquiMQ's class of the same name.
    """

    def __init__(
        self,
        redis_url: str,
        queue_name: str,
        *,
        tick_interval_ms: int | None = None,
        batch: int | None = None,
        max_stream_len: int | None = None,
        lock_ttl_secs: int | None = None,
        holder_id: str | None = None,
        credential_provider: CredentialProvider | None = None,
    ) -> None:
        keys = QueueKeys(checked_queue_name(queue_name))
        link = _link(redis_url, keys, "scheduler", SCHEDULER_SCRIPTS, credential_provider)
        duty = SchedulerService(
            link,
            keys,
            _holder(holder_id, "s"),
            every=_given("tick_interval_ms", tick_interval_ms, 1000) / 1000,
            batch=_given("batch", batch, 256),
            stream_cap=None if max_stream_len is None else positive("max_stream_len", max_stream_len),
            lock_ttl_s=_given("lock_ttl_secs", lock_ttl_secs, 5),
        )
        self.fired: Signal[SchedulerTick] = duty.fired
        self.leading: Signal[bool] = duty.leading
        super().__init__(link, duty, queue_name)


class PromoterProcess(Standalone):
    """Moves the due delayed jobs and retries of one queue, for fleets whose workers run with `delayed_enabled=False`.

        await PromoterProcess("redis://127.0.0.1:6379", "emails").run()

    `promoted` and `leading` tell what it does.
    """

    def __init__(
        self,
        redis_url: str,
        queue_name: str,
        *,
        tick_interval_ms: int | None = None,
        batch: int | None = None,
        max_stream_len: int | None = None,
        dlq_max_stream_len: int | None = None,
        events_enabled: bool = True,
        lock_ttl_secs: int | None = None,
        holder_id: str | None = None,
        credential_provider: CredentialProvider | None = None,
    ) -> None:
        keys = QueueKeys(checked_queue_name(queue_name))
        link = _link(redis_url, keys, "promoter", (PROMOTE,), credential_provider)
        duty = Promoter(
            link,
            keys,
            _holder(holder_id, "p"),
            every=_given("tick_interval_ms", tick_interval_ms, 100) / 1000,
            batch=_given("batch", batch, BATCH),
            stream_cap=None if max_stream_len is None else positive("max_stream_len", max_stream_len),
            dlq_cap=_given("dlq_max_stream_len", dlq_max_stream_len, QueueLimits.dlq_max_stream_len),
            events=flag("events_enabled", events_enabled),
            lock_ttl_s=_given("lock_ttl_secs", lock_ttl_secs, 5),
        )
        self.promoted: Signal[PromoterTick] = duty.promoted
        self.leading: Signal[bool] = duty.leading
        super().__init__(link, duty, queue_name)


def _link(
    url: str, keys: QueueKeys, purpose: str, scripts: Sequence[Script], credentials: CredentialProvider | None
) -> Link:
    address = Address.parse(url, credentials=credentials)
    return Link(address, keys.tag, purpose=purpose, scripts=(HOLD_LOCK, RELEASE_LOCK, *scripts))


def _holder(given: str | None, letter: str) -> str:
    return f"{letter}-{uuid.uuid4()}" if given is None else checked_name("holder_id", given)


def _given(argument: str, value: int | None, default: int) -> int:
    return default if value is None else positive(argument, value)
