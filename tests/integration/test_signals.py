"""Real signals to a real worker process: the first asks it to finish, the second to stop now."""

import signal
import time

import pytest

from chaos.faults import WorkerProcess
from chaos.ledger import Ledger, Mark
from relevo.wire.keys import QueueKeys
from tests.integration.staff import Staff
from tests.pace import limit
from tests.servers.server import Server

BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)


def count(kind: str, marks: list[Mark]) -> int:
    return sum(mark.kind == kind for mark in marks)


@BOTH
async def test_the_first_signal_lets_running_jobs_finish(
    number: signal.Signals, redis86: Server, staff: Staff, ledger: Ledger, queue_name: str
) -> None:
    queue = await staff.queue(redis86.url)
    with WorkerProcess(ledger, queue_name, redis86.url) as process:
        await process.ready()
        job = await queue.add("job", {"seconds": 1})
        await process.until(lambda marks: count("start", marks) == 1)
        process.signal(number)
        assert await process.ended() == 0
    assert [(mark.kind, mark.job_id) for mark in ledger.marks()][1:] == [
        ("start", job.id),
        ("end", job.id),
        ("left", ""),
    ]
    assert redis86.call("XLEN", QueueKeys(queue_name).stream) == 0
    assert redis86.call("XINFO", "CONSUMERS", QueueKeys(queue_name).stream, "default") == []


@BOTH
async def test_the_second_signal_stops_now_and_hands_back(
    number: signal.Signals, redis86: Server, staff: Staff, ledger: Ledger, queue_name: str
) -> None:
    queue = await staff.queue(redis86.url)
    with WorkerProcess(ledger, queue_name, redis86.url, shutdown_deadline_s=1000) as process:
        await process.ready()
        job = await queue.add("job", {"seconds": 600})
        await process.until(lambda marks: count("start", marks) == 1)
        began = time.monotonic()
        process.signal(number)
        while redis86.call("EXISTS", QueueKeys(queue_name).promoter_lock) and time.monotonic() - began < 0.3:
            pass  # two signals at once would be one to the kernel
        process.signal(number)
        assert await process.ended() == 0
    assert time.monotonic() - began < limit(20)
    assert [mark.job_id for mark in ledger.of("cut")] == [job.id]
    assert redis86.call("XLEN", QueueKeys(queue_name).stream) == 1
    assert redis86.call("XPENDING", QueueKeys(queue_name).stream, "default")[0] == 0, "it was added again, for free"


async def test_a_blocked_loop_does_not_hide_the_signal(
    redis86: Server, staff: Staff, ledger: Ledger, queue_name: str
) -> None:
    queue = await staff.queue(redis86.url)
    with WorkerProcess(ledger, queue_name, redis86.url, claim_min_idle_ms=500) as process:
        await process.ready()
        await queue.add("job", {"block": 1.5})
        await process.until(lambda marks: count("start", marks) == 1)
        process.signal(signal.SIGTERM)
        assert await process.ended() == 0
    assert count("end", ledger.marks()) == 1
    assert count("start", ledger.marks()) == 1
