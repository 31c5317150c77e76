"""The lease keeper, with a server that answers what the test says."""

import asyncio
import logging
import time
from typing import Any, cast

import pytest

from relevo.broker.link import Link
from relevo.engine.consuming.lease_keeper import LeaseKeeper, Renewal
from relevo.engine.settling.delivery import Delivery, HeldDeliveries
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys


class Answers:
    """Stands in for a link: every renewal gets these verdicts, 1 for ours and 0 for not."""

    def __init__(self, *verdicts: int) -> None:
        self.verdicts = list(verdicts)

    async def ready(self, wait: float) -> None: ...

    async def run(self, *_: Any) -> list[int]:
        return self.verdicts

    async def close(self) -> None: ...


def held(*deliveries: Delivery) -> HeldDeliveries:
    holding = HeldDeliveries(idle_s=0.03)
    for delivery in deliveries:
        holding.hold(delivery)
    return holding


def delivery(entry_id: bytes) -> Delivery:
    envelope = Envelope(id=entry_id.decode(), payload=b"\xc0", created_at_ms=0, attempt=0)
    return Delivery(entry_id, envelope, "send", 0, time.monotonic())


async def one_round(holding: HeldDeliveries, *verdicts: int) -> Renewal:
    link = cast(Link, Answers(*verdicts))
    keeper = LeaseKeeper(lambda: link, QueueKeys("mail"), "default", "me", holding)
    renewed = asyncio.ensure_future(keeper.renewed.wait_for())
    await asyncio.sleep(0)
    keeper.start()
    try:
        return await renewed
    finally:
        await keeper.stop()


async def test_a_job_that_another_worker_took_over_is_lost_and_told(caplog: pytest.LogCaptureFixture) -> None:
    kept, taken = delivery(b"1-0"), delivery(b"2-0")
    renewal = await one_round(held(kept, taken), 1, 0)
    assert renewal == Renewal(kept=1, lost=1)
    assert (kept.lost, taken.lost) == (False, True)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING][:1] == [
        "queue mail: lost the lease on 1 job: another worker has taken over"
    ]


async def test_a_job_that_is_being_settled_is_not_told_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Its entry is gone before the settle's answer is here: a healthy worker warned of that on a busy machine."""
    settling = delivery(b"1-0")
    settling.started = time.perf_counter()
    renewal = await one_round(held(settling), 0)
    assert renewal == Renewal(kept=0, lost=0)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
