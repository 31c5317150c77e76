"""Workers that die: their jobs run again, deaths are counted apart from retries, and a job that kills is stopped."""

import pytest

from chaos.faults import WorkerProcess
from chaos.ledger import Ledger, Mark
from relevo.wire.keys import QueueKeys
from tests.conftest import Launch
from tests.integration.staff import Staff
from tests.pace import limit
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, Server, SingleServer
from tests.support.runs import Runs

IDLE_MS = 500
KINDS = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=lambda kind: kind.name)


def starts(marks: list[Mark]) -> int:
    return sum(mark.kind == "start" for mark in marks)


@KINDS
async def test_the_job_of_a_worker_killed_while_running_it_runs_again(
    kind: type[SingleServer], launch: Launch, staff: Staff, ledger: Ledger, queue_name: str
) -> None:
    server = launch(kind)
    queue = await staff.queue(server.url)
    with WorkerProcess(ledger, queue_name, server.url, claim_min_idle_ms=IDLE_MS) as process:
        await process.ready()
        job = await queue.add("job", {"seconds": 600})
        await process.until(lambda marks: starts(marks) == 1)
        process.kill()
    runs = Runs()
    worker = await staff.worker(server.url, runs, claim_min_idle_ms=IDLE_MS, max_attempts=1)
    await worker.until(done=1)
    # A crash is no attempt: with one attempt allowed it still runs, and as attempt 0.
    assert [(run.id, run.attempt) for run in runs.jobs] == [(job.id, 0)]


async def test_a_job_that_kills_its_worker_is_stopped_after_the_allowed_deaths(
    redis86: Server, staff: Staff, ledger: Ledger, queue_name: str
) -> None:
    queue = await staff.queue(redis86.url)
    job = await queue.add("killer", {"die": True})
    for _ in range(2):  # the default of max_stalled_attempts
        with WorkerProcess(ledger, queue_name, redis86.url, claim_min_idle_ms=IDLE_MS) as process:
            assert await process.ended() == -9
    runs = Runs()
    worker = await staff.worker(redis86.url, runs, claim_min_idle_ms=IDLE_MS)
    if worker.total.dead == 0:
        await worker.stalled_detector.scanned.wait_for(
            lambda _: redis86.call("XLEN", QueueKeys(queue_name).dead) == 1, timeout=limit(20)
        )
    (letter,) = await queue.peek_dlq()
    assert (letter["reason"], letter["name"]) == ("stalled", "killer")
    assert letter["detail"] == "its worker died 2 times"
    assert starts(ledger.marks()) == 2
    assert runs.jobs == []
    assert await queue.replay_dlq() == 1
    await worker.until(done=1)
    assert [(run.id, run.attempt) for run in runs.jobs] == [(job.id, 0)]


async def test_of_a_frame_only_the_job_that_kills_its_worker_is_stopped(
    redis86: Server, staff: Staff, ledger: Ledger, queue_name: str
) -> None:
    """It dies once in its frame, which is taken apart, and then as often as any other."""
    queue = await staff.queue(redis86.url)
    others = [{"name": "other", "data": None} for _ in range(3)]
    jobs = await queue.add_bulk([{"name": "killer", "data": {"die": True}}, *others], frame=4)
    for _ in range(3):
        with WorkerProcess(ledger, queue_name, redis86.url, claim_min_idle_ms=IDLE_MS, concurrency=1) as process:
            assert await process.ended() == -9
    worker = await staff.worker(redis86.url, Runs(), claim_min_idle_ms=IDLE_MS)
    dead = QueueKeys(queue_name).dead
    while redis86.call("XLEN", dead) == 0:
        await worker.stalled_detector.scanned.wait_for(timeout=limit(20))
    (letter,) = await queue.peek_dlq()
    assert (letter["reason"], letter["name"]) == ("stalled", "killer")
    ended = {mark.job_id for mark in ledger.marks() if mark.kind == "end"}
    await worker.until(done=len(others) - len(ended))
    assert ended <= {job.id for job in jobs[1:]}


async def test_a_killer_is_stopped_also_when_its_worker_comes_back_under_the_same_name(
    redis86: Server, staff: Staff, ledger: Ledger, queue_name: str
) -> None:
    """As a container with a fixed host name does: it must not take its own crash over uncounted, for ever."""
    queue = await staff.queue(redis86.url)
    await queue.add("killer", {"die": True})
    options = {"claim_min_idle_ms": IDLE_MS, "consumer_id": "pod-1"}
    for _ in range(2):
        with WorkerProcess(ledger, queue_name, redis86.url, **options) as process:
            assert await process.ended() == -9
    worker = await staff.worker(redis86.url, Runs(), **options)
    if worker.total.dead == 0:
        await worker.stalled_detector.scanned.wait_for(
            lambda _: redis86.call("XLEN", QueueKeys(queue_name).dead) == 1, timeout=limit(20)
        )
    assert starts(ledger.marks()) == 2
    assert [letter["reason"] for letter in await queue.peek_dlq()] == ["stalled"]


async def test_a_paused_worker_process_loses_its_job_and_does_not_settle_it(
    redis86: Server, staff: Staff, ledger: Ledger, queue_name: str
) -> None:
    """SIGSTOP past the idle limit is a death to everyone else; when it wakes, the job is another's and stays so."""
    queue = await staff.queue(redis86.url)
    with WorkerProcess(ledger, queue_name, redis86.url, claim_min_idle_ms=IDLE_MS) as process:
        await process.ready()
        job = await queue.add("job", {"seconds": 0.2})
        await process.until(lambda marks: starts(marks) == 1)
        process.pause()
        runs = Runs()
        worker = await staff.worker(redis86.url, runs, claim_min_idle_ms=IDLE_MS)
        await worker.until(done=1)
        process.resume()
        await process.until(lambda marks: any(mark.kind == "end" for mark in marks))
    assert runs.ids == [job.id]
    assert worker.total.lost == 0
    assert redis86.call("XLEN", QueueKeys(queue_name).stream) == 0
