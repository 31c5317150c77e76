"""The acts about order: a schedule, a flow, a limit. Each does one thing and checks that it happened."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

from relevo.demo.house import LETTERS, House
from relevo.demo.size import Size
from relevo.engine.job.job import Job
from relevo.engine.lanes.lanes import LaneLimit
from relevo.engine.producing.flows import Flow
from relevo.engine.schedules.patterns import RepeatPattern
from relevo.wire.notes import ALL_LANES

_AT_ONCE = 2


async def schedule(house: House, size: Size) -> str:
    """A job on a beat; its scheduler leaves in the middle, the next one takes over."""
    queue, slots, rounds = house.queue(LETTERS), size.slots, list[str]()

    async def collect(job: Job) -> None:
        rounds.append(job.id)
        house.ids[LETTERS].append(job.id)
        house.stage.news(f"the mailbox is emptied: round {len(rounds)} of {slots}", "cyan")

    async with AsyncExitStack() as second:
        async with house.worker(LETTERS, collect):
            await second.enter_async_context(house.worker(LETTERS, collect))
            began = time.monotonic()
            await queue.upsert_repeatable_job(
                "empty-mailbox", None, repeat=RepeatPattern.every(size.slot_ms), limit=slots, key="mailbox"
            )
            await house.until(lambda: len(rounds) >= slots // 2, "the first half of the rounds")
        house.stage.news("the worker that kept the schedule was stopped; another goes on", "bold red")
        await house.until(lambda: len(rounds) >= slots, "the other half of the rounds")
        took = time.monotonic() - began
        left = (await house.snapshot(LETTERS)).repeatable
    house.tally.equal("slots of the schedule that fired", slots, len(rounds))
    house.tally.equal("of these, different slots: none twice", slots, len(set(rounds)))
    house.tally.equal("schedules left after the last slot", 0, left)
    return f"{slots} rounds, one each {size.slot_ms} ms, in {took:.1f} s: none lost or doubled at the hand-over"


async def flow(house: House, _: Size) -> str:
    """Jobs that wait for others: weigh three crates, then load, then leave."""
    weights = {"crate-1": 12, "crate-2": 30, "crate-3": 7}
    order: list[str] = []

    async def work(job: Job) -> Any:
        parents = await job.parent_results()
        result: Any = None
        if job.name == "weigh":
            await asyncio.sleep(0.1)
            result = weights[job.data]
        elif job.name == "load":
            result = sum(parent.value for parent in parents.values())
            house.stage.news(f"load knows what the three crates weigh: {result} kg", "cyan")
        else:
            result = f"left with {parents['load'].value} kg"
        order.append(job.name)
        house.ids[LETTERS].append(job.id)
        return result

    plan = Flow()
    for crate in weights:
        plan.add("weigh", crate, key=crate)
    plan.add("load", None, after=list(weights))
    plan.add("leave", None, after=["load"])
    async with house.worker(LETTERS, work):
        run = await house.queue(LETTERS).start_flow(plan)
        state = await run.wait(timeout=60)
    house.tally.equal("flow: what ran after the three crates", "load, leave", ", ".join(order[3:]))
    house.tally.equal("flow: the last result", f"left with {sum(weights.values())} kg", state.jobs["leave"].value)
    return f"5 jobs in their order, results handed down; the flow is {state.state}: {state.jobs['leave'].value}"


async def limit(house: House, size: Size) -> str:
    """One customer's flood and another's few: each lane takes turns, two at a time."""
    queue = house.queue(LETTERS)
    running, most = Counter[str](), Counter[str]()
    ended: list[str] = []

    async def serve(job: Job) -> None:
        customer = job.data["customer"]
        running[customer] += 1
        most[customer] = max(most[customer], running[customer])
        await asyncio.sleep(0.02)
        running[customer] -= 1
        ended.append(customer)
        if customer == "small" and ended.count("small") == size.few:
            wait = size.flood - ended.count("big")
            house.stage.news(f"the small customer's {size.few} are done, {wait} of the big one's still wait", "green")

    def of(customer: str, number: int) -> list[dict[str, Any]]:
        return [{"name": "serve", "data": {"customer": customer}, "lane": customer} for _ in range(number)]

    await queue.lanes.limit(ALL_LANES, LaneLimit(concurrency=_AT_ONCE))
    jobs = await queue.add_bulk(of("big", size.flood))
    jobs += await queue.add_bulk(of("small", size.few))  # behind the flood, and yet not after it
    ids = [job.id for job in jobs]
    house.ids[LETTERS] += ids
    async with house.worker(LETTERS, serve):
        await house.until(lambda: house.tally.finished_of(ids) == len(ids), "both customers' jobs")
    await queue.lanes.unlimit(ALL_LANES)
    before = ended[: _last(ended, "small")].count("big")
    house.tally.all_finished("jobs of both customers done", ids)
    highest = max(most.values())
    house.tally.within("most of one customer at once", f"up to {_AT_ONCE}", kept=highest <= _AT_ONCE, got=str(highest))
    house.tally.within(
        "big customer's jobs before the small one's last", "under half", kept=before < size.flood / 2, got=str(before)
    )
    return f"{_AT_ONCE} at a time each: {size.few} jobs behind {size.flood} of another waited for {before} of them"


def _last(items: list[str], wanted: str) -> int:
    return len(items) - items[::-1].index(wanted)
