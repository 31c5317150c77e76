"""The acts: each does one thing a queue is for, and checks that it happened."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter

from relevo.demo.house import LETTERS, NIGHT, PARCELS, House
from relevo.demo.size import Size
from relevo.engine.job.job import Job
from relevo.errors import UnrecoverableError
from relevo.wire.backoff import BackoffSpec

_BULK = 500


async def produce(house: House, size: Size) -> str:
    """Thousands of jobs in bulk, while nobody works yet."""
    queue, started = house.queue(PARCELS), time.monotonic()
    for first in range(0, size.parcels, _BULK):
        some = range(first, min(first + _BULK, size.parcels))
        added = await queue.add_bulk([{"name": "deliver", "data": {"parcel": number}} for number in some])
        house.ids[PARCELS] += [job.id for job in added]
        if len(house.ids[PARCELS]) % (size.parcels // 4) == 0:
            house.stage.news(
                f"{_count(len(house.ids[PARCELS]))} parcels are in the queue, {_BULK} in one write", "cyan"
            )
        if size.pause_s:
            await asyncio.sleep(0.04)  # only so that the eye can follow
    waiting = (await house.snapshot(PARCELS)).waiting
    house.tally.equal("parcels waiting before any worker starts", size.parcels, waiting)
    return f"{_count(size.parcels)} jobs added in bulks of {_BULK}, {time.monotonic() - started:.1f} s"


async def run(house: House, size: Size) -> str:
    """Two workers share them."""
    ids, by = house.ids[PARCELS], Counter[str]()

    async def deliver(worker: str) -> None:
        await asyncio.sleep(size.handling_s)
        by[worker] += 1
        if by.total() % (size.parcels // 4) == 0:
            house.stage.news(f"{_count(by.total())} parcels delivered", "green")

    async with (
        house.worker(PARCELS, lambda _: deliver("first"), concurrency=50),
        house.worker(PARCELS, lambda _: deliver("second"), concurrency=50),
    ):
        await house.until(lambda: house.tally.finished_of(ids) == len(ids), "the parcels to be delivered")
    house.tally.all_finished("parcels delivered", ids)
    house.tally.equal("runs of parcels: none ran twice", len(ids), house.tally.runs_of(ids))
    return f"two workers, 50 at a time each: {_count(by['first'])} and {_count(by['second'])} jobs, none twice"


async def fail_and_retry(house: House, size: Size) -> str:
    """Each fails twice, waits longer each time, and succeeds."""
    seen: dict[str, list[float]] = {}

    async def flaky(job: Job) -> None:
        seen.setdefault(job.id, []).append(time.monotonic())
        if job.attempt < 2:
            raise ConnectionError("the recipient does not open")

    backoff = BackoffSpec.exponential(200, multiplier=3.0, jitter_ms=100)
    jobs = [{"name": "hand-over", "data": {"door": n}, "attempts": 5, "backoff": backoff} for n in range(size.retries)]
    ids = [job.id for job in await house.queue(LETTERS).add_bulk(jobs)]
    house.ids[LETTERS] += ids
    async with house.worker(LETTERS, flaky):
        await house.until(lambda: house.tally.finished_of(ids) == len(ids), "the retries to succeed")
    house.tally.all_finished("failing jobs that succeeded in the end", ids)
    house.tally.equal("their runs, three each", 3 * len(ids), house.tally.runs_of(ids))
    shortest = min(times[2] - times[1] for times in seen.values())
    house.tally.within(
        "second pause, 600 ms asked", "at least", kept=shortest > 0.58, got=f"shortest {shortest * 1000:.0f} ms"
    )
    return f"{len(ids)} jobs failed twice, paused 200 ms, then 600 ms, and succeeded"


async def delay(house: House, size: Size) -> str:
    """Jobs for later: none early, none forgotten."""
    late: list[float] = []

    async def note(job: Job) -> None:
        late.append(time.time() * 1000 - job.data["due_ms"])

    jobs: list[dict[str, object]] = []
    for number in range(size.delayed):
        wait_ms = 300 + number * size.spread_ms // size.delayed
        jobs.append({"name": "later", "data": {"due_ms": time.time() * 1000 + wait_ms}, "delay_ms": wait_ms})
    ids = [job.id for job in await house.queue(LETTERS).add_bulk(jobs)]
    house.ids[LETTERS] += ids
    async with house.worker(LETTERS, note):
        await house.until(lambda: house.tally.finished_of(ids) == len(ids), "the delayed jobs")
    house.tally.all_finished("delayed jobs done", ids)
    house.tally.equal("delayed jobs that ran early", 0, sum(each < -50 for each in late))
    return f"{len(ids)} jobs due over {size.spread_ms / 1000:g} s; the latest ran {max(late):.0f} ms after its time"


async def dead_letter(house: House, size: Size) -> str:
    """What cannot succeed is kept aside, with the reason."""

    async def broken(job: Job) -> None:
        if job.data["address"] is None:
            raise UnrecoverableError("no address")
        raise TimeoutError("the sorting machine is down")

    jobs = [
        {"name": "sort", "data": {"address": f"street {n}"}, "attempts": 2, "backoff": 50} for n in range(size.letters)
    ]
    jobs += [{"name": "sort", "data": {"address": None}} for _ in range(2)]
    queue = house.queue(LETTERS)
    ids = [job.id for job in await queue.add_bulk(jobs)]
    house.ids[LETTERS] += ids
    async with house.worker(LETTERS, broken) as worker:
        dead = 0

        def count(settled: int) -> None:
            nonlocal dead
            dead += settled

        worker.settled.listen(lambda settlement: count(settlement.dead))
        await house.until(lambda: dead == len(ids), "the letters to be given up")
    reasons = Counter(letter["reason"] for letter in await queue.peek_dlq(limit=1000))
    house.tally.equal("dead letters, retries exhausted", size.letters, reasons["retries_exhausted"])
    house.tally.equal("dead letters, unrecoverable", 2, reasons["unrecoverable"])
    return f"{size.letters} gave up after 2 runs, 2 at once: all kept, each with its reason"


async def replay(house: House, size: Size) -> str:
    """The machine is repaired: send them back."""

    async def repaired(job: Job) -> str:
        return f"sorted {job.data['address']}"

    queue = house.queue(LETTERS)
    ids = house.ids[LETTERS][-(size.letters + 2) :]
    async with house.worker(LETTERS, repaired):
        back = await queue.replay_dlq(limit=1000, reasons=["retries_exhausted"])
        house.stage.news(f"replay of retries_exhausted: {back} back in the queue", "cyan")
        back += await queue.replay_dlq(limit=1000)
        await house.until(lambda: house.tally.finished_of(ids) == len(ids), "the replayed letters")
    house.tally.equal("letters replayed", len(ids), back)
    house.tally.all_finished("replayed letters done", ids)
    house.tally.equal("dead letters left", 0, (await house.snapshot(LETTERS)).dead)
    return f"{back} dead letters sent back, all done with the repaired handler"


async def lose_a_worker(house: House, size: Size) -> str:
    """Kill -9 of a worker in the middle of its jobs: they come back."""
    queue = house.queue(NIGHT)
    ids = [job.id for job in await queue.add_bulk([{"name": "watch", "data": None}] * size.stranded)]
    house.ids[NIGHT] += ids
    arguments = ("-m", "relevo.demo.casualty", house.url, NIGHT, str(size.idle_ms))
    casualty = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    assert casualty.stdout is not None
    try:
        async with asyncio.timeout(30):
            held = {(await casualty.stdout.readline()).decode().strip() for _ in ids}
    finally:
        os.kill(casualty.pid, signal.SIGKILL)
        await casualty.wait()
    killed = time.monotonic()
    house.stage.news(f"worker process {casualty.pid} holds {len(held)} jobs; kill -9 {casualty.pid}", "bold red")

    async def take_over(job: Job) -> None:
        house.stage.news(f"job {job.id} came back {time.monotonic() - killed:.1f} s after the kill", "magenta")

    async with house.worker(NIGHT, take_over, claim_min_idle_ms=size.idle_ms):
        await house.until(lambda: house.tally.finished_of(ids) == len(ids), "the dead worker's jobs")
    took = time.monotonic() - killed
    house.tally.equal("jobs the killed worker held", len(ids), len(held))
    house.tally.all_finished("of these, done by another worker", ids)
    return f"a killed worker's {len(ids)} jobs ran elsewhere {took:.1f} s later (idle limit {size.idle_ms / 1000:g} s)"


async def lose_the_server(house: House, size: Size) -> str:
    """Kill -9 of the server under load: nothing acknowledged is lost."""
    queue = house.queue(NIGHT)
    ids: list[str] = []

    async def work(_: Job) -> None:
        await asyncio.sleep(size.handling_s)

    async with house.worker(NIGHT, work, claim_min_idle_ms=size.idle_ms):
        for number in range(0, size.survivors, 100):
            jobs = [{"name": "walk", "data": {"round": number + each}} for each in range(100)]
            if number == size.survivors // 2:
                await house.kill_server()
                house.stage.news("the server was killed and started again; producers and workers go on", "bold red")
            added = [job.id for job in await queue.add_bulk(jobs)]
            ids += added
            house.ids[NIGHT] += added
        await house.until(lambda: house.tally.finished_of(ids) == len(ids), "the jobs after the restart")
    house.tally.all_finished("jobs acknowledged around the server's death, done", ids)
    return f"server killed and restarted: {_count(len(ids))} acknowledged jobs, {_count(len(ids))} done"


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")
