"""Flows: jobs wait for others, a rule decides what a failure means, and whatever happens nothing waits for ever."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from relevo import After, BackoffSpec, Flow, FlowState, Job, ParentResult, Queue, QueueFull, UnrecoverableError
from relevo.engine.producing.flows import KEPT_S
from relevo.errors import BadFlow
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.conformance.group import GROUP, Group
from tests.pace import limit
from tests.servers.server import Client
from tests.support.held import HeldRuns

AT_ONCE = BackoffSpec.fixed(1)


class FlowRuns:
    """Runs jobs of flows: remembers the order and what parents had left; `fail` names jobs that fail for good."""

    def __init__(self, *fail: str, answer: Callable[[Job], Any] = lambda job: job.data) -> None:
        self.order: list[str] = []
        self.seen: dict[str, dict[str, ParentResult]] = {}
        self._fail = fail
        self._answer = answer

    async def __call__(self, job: Job) -> Any:
        self.order.append(job.name)
        self.seen[job.name] = await job.parent_results()
        if job.name in self._fail:
            raise UnrecoverableError(f"{job.name} broke")
        return self._answer(job)


def states(state: FlowState) -> dict[str, str]:
    return {key: each.state for key, each in state.jobs.items()}


def diamond(rule: Any = "fail") -> Flow:
    flow = Flow()
    flow.add("top", 1)
    flow.add("left", 2, after=["top"])
    flow.add("right", 3, after=["top"])
    flow.add("bottom", 4, after=[After("left", rule), After("right", rule)])
    return flow


# --- in order ----------------------------------------------------------------------------------------------------------


async def test_each_job_of_a_diamond_runs_once_and_behind_those_it_waits_for(queue: Queue, worker_of: WorkerOf) -> None:
    runs = FlowRuns()
    async with worker_of(runs), worker_of(runs):
        state = await (await queue.start_flow(diamond())).wait(timeout=limit(20))
    assert (runs.order[0], sorted(runs.order[1:3]), runs.order[3:]) == ("top", ["left", "right"], ["bottom"])
    assert (state.state, set(states(state).values())) == ("done", {"done"})


async def test_a_job_finds_what_its_parents_returned(queue: Queue, worker_of: WorkerOf) -> None:
    """Also where the workers store no results: the flow keeps them."""
    runs = FlowRuns(answer=lambda job: {"half": job.data / 2})
    async with worker_of(runs, store_results=False):
        run = await queue.start_flow(diamond())
        state = await run.wait(timeout=limit(20))
    assert runs.seen["bottom"] == {
        "left": ParentResult("done", {"half": 1.0}, ""),
        "right": ParentResult("done", {"half": 1.5}, ""),
    }
    assert runs.seen["top"] == {}
    assert state.jobs["bottom"].value == {"half": 2.0}


async def test_results_are_stored_too_where_workers_store_them(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(FlowRuns(), store_results=True):
        run = await queue.start_flow(diamond())
        await run.wait(timeout=limit(20))
    assert await queue.get_job_result(f"{run.id}.0.top") == 1


async def test_fifty_at_once_come_together_in_one(queue: Queue, worker_of: WorkerOf) -> None:
    flow = Flow()
    flow.add("split", 0)
    parts = [flow.add("part", number, key=f"part-{number}", after=["split"]) for number in range(50)]
    flow.add("sum", None, after=parts)
    runs = FlowRuns()
    async with worker_of(runs), worker_of(runs):
        state = await (await queue.start_flow(flow)).wait(timeout=limit(20))
    assert Counter(runs.order) == {"split": 1, "part": 50, "sum": 1}
    assert sum(each.value for each in runs.seen["sum"].values()) == sum(range(50))
    assert state.state == "done"


async def test_a_job_of_no_flow_has_no_parents(queue: Queue, worker_of: WorkerOf) -> None:
    runs = FlowRuns()
    async with worker_of(runs) as worker:
        await queue.add("alone", 1)
        await worker.until(done=1)
    assert runs.seen == {"alone": {}}


# --- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "bottom", "sees"),
    [
        ("fail", "skipped", None),
        ("ignore", "done", {"right": ParentResult("done", 3, "")}),
        (
            "continue",
            "done",
            {
                "left": ParentResult("failed", None, "relevo.errors.UnrecoverableError: left broke"),
                "right": ParentResult("done", 3, ""),
            },
        ),
    ],
)
async def test_the_rule_of_an_edge_says_what_a_failure_means(
    queue: Queue, worker_of: WorkerOf, rule: str, bottom: str, sees: Any
) -> None:
    runs = FlowRuns("left")
    async with worker_of(runs):
        state = await (await queue.start_flow(diamond(rule))).wait(timeout=limit(20))
    assert states(state) == {"top": "done", "left": "failed", "right": "done", "bottom": bottom}
    assert runs.seen.get("bottom") == sees
    assert (state.state, state.jobs["left"].reason) == ("failed", "relevo.errors.UnrecoverableError: left broke")


async def test_what_follows_a_skipped_job_obeys_its_own_rule(queue: Queue, worker_of: WorkerOf) -> None:
    flow = Flow()
    flow.add("a", 1)
    flow.add("b", 1, after=["a"])
    flow.add("c", 1, after=["b"])
    flow.add("d", 1, after=[After("c", "continue")])
    runs = FlowRuns("a")
    async with worker_of(runs):
        state = await (await queue.start_flow(flow)).wait(timeout=limit(20))
    assert states(state) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "done"}
    assert runs.seen["d"] == {"c": ParentResult("skipped", None, "")}


async def test_a_job_of_a_flow_is_tried_again_like_any_other(queue: Queue, worker_of: WorkerOf) -> None:
    tries: Counter[str] = Counter()

    async def handle(job: Job) -> int:
        tries[job.name] += 1
        if tries[job.name] < 3:
            raise ValueError("not yet")
        return tries[job.name]

    flow = Flow()
    flow.add("first", None, attempts=3, backoff=AT_ONCE)
    flow.add("second", None, after=["first"], attempts=2, backoff=AT_ONCE)
    async with worker_of(handle):
        state = await (await queue.start_flow(flow)).wait(timeout=limit(20))
    assert tries == {"first": 3, "second": 2}
    assert states(state) == {"first": "done", "second": "failed"}


@pytest.mark.parametrize("detector", [True, False], ids=["detector", "reader"])
async def test_a_parent_that_killed_its_workers_counts_as_failed(
    queue: Queue, worker_of: WorkerOf, group: Group, detector: bool
) -> None:
    await group.make()
    run = await queue.start_flow(diamond())
    await group.die_with(1, times=3)
    async with worker_of(FlowRuns(), claim_min_idle_ms=100, stalled_detector_enabled=detector):
        state = await run.wait(timeout=limit(20))
    assert states(state) == {"top": "failed", "left": "skipped", "right": "skipped", "bottom": "skipped"}


async def test_a_parent_of_a_dead_worker_runs_again(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    await group.make()
    run = await queue.start_flow(diamond())
    await group.die_with(1)
    async with worker_of(FlowRuns(), claim_min_idle_ms=100):
        assert (await run.wait(timeout=limit(20))).state == "done"


@pytest.mark.parametrize("how", ["remove", "drain"])
async def test_a_parent_that_was_removed_ends_what_waits_for_it(queue: Queue, how: str) -> None:
    run = await queue.start_flow(diamond())
    if how == "remove":
        assert await queue.remove(f"{run.id}.0.top") == 1
    else:
        assert await queue.drain() == 1
    state = await run.state()
    assert (state.state, set(states(state).values())) == ("failed", {"cancelled"})


async def test_an_audit_finds_a_parent_that_is_gone(
    queue: Queue, worker_of: WorkerOf, group: Group, raw: Client, keys: QueueKeys
) -> None:
    await group.make()
    run = await queue.start_flow(diamond("ignore"))
    (entry_id,) = await group.die_with(1)
    await raw.xack(keys.stream, GROUP, entry_id)
    await raw.xdel(keys.stream, entry_id)
    async with worker_of(FlowRuns()) as worker:
        await worker.lane_dispatcher.audit()
        await worker.lane_dispatcher.audit()
        state = await run.wait(timeout=limit(20))
    assert states(state) == {"top": "failed", "left": "skipped", "right": "skipped", "bottom": "done"}
    assert state.jobs["top"].reason == "the job is gone"


# --- cancelling --------------------------------------------------------------------------------------------------------


async def test_cancelling_the_rest_ends_what_runs_and_what_waits(
    queue: Queue, queue_of: QueueOf, worker_of: WorkerOf
) -> None:
    flow = Flow()
    flow.add("before", 1)
    flow.add("held", 1, after=["before"])
    flow.add("never", 1, after=[After("held", "ignore")])
    runs = HeldRuns()

    async def handle(job: Job) -> None:
        if job.name != "before":
            await runs(job)

    async with worker_of(handle):
        run = await queue.start_flow(flow)
        await runs.until(1)
        assert await run.cancel() == 1
        state = await run.wait(timeout=limit(20))
        assert await run.cancel() == 0
    assert states(state) == {"before": "done", "held": "cancelled", "never": "cancelled"}
    assert (runs.names, len(runs.cut)) == (["held"], 1)


async def test_a_job_that_waits_in_the_stream_is_cancelled_with_its_flow(queue: Queue, worker_of: WorkerOf) -> None:
    run = await queue.start_flow(diamond())
    assert await run.cancel() == 1
    runs = FlowRuns()
    async with worker_of(runs):
        state = await run.wait(timeout=limit(20))
    assert set(states(state).values()) == {"cancelled"}


async def test_one_job_of_a_flow_may_be_cancelled(queue: Queue, worker_of: WorkerOf) -> None:
    runs = HeldRuns()
    async with worker_of(runs) as worker:
        ended = asyncio.ensure_future(worker.policy.outcomes.wait_for(lambda outcome: outcome.kind == "cancelled"))
        run = await queue.start_flow(diamond("ignore"))
        await runs.until(1)
        assert await queue.cancel(f"{run.id}.0.top")
        await ended
        runs.let_go()
        state = await run.wait(timeout=limit(20))
    assert states(state) == {"top": "cancelled", "left": "cancelled", "right": "cancelled", "bottom": "done"}


# --- the flow itself ---------------------------------------------------------------------------------------------------


async def test_the_state_of_a_flow_tells_where_each_job_is(queue: Queue, worker_of: WorkerOf) -> None:
    runs = HeldRuns()
    async with worker_of(runs):
        run = await queue.start_flow(diamond())
        await runs.until(1)
        state = await run.state()
        assert state.state == "running"
        assert states(state) == {"top": "queued", "left": "waiting", "right": "waiting", "bottom": "waiting"}
        with pytest.raises(TimeoutError):
            await run.wait(timeout=0.05)
        runs.let_go()
        await run.wait(timeout=limit(20))


async def test_a_flow_that_has_ended_is_kept_for_a_day(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    async with worker_of(FlowRuns()):
        run = await queue.start_flow(diamond())
        await run.wait(timeout=limit(20))
    assert KEPT_S - 60 < await raw.ttl(keys.flow(run.id)) <= KEPT_S
    assert await raw.exists(keys.notes) == 0
    await raw.delete(keys.flow(run.id))
    with pytest.raises(BadFlow, match="there is no flow"):
        await run.state()


async def test_a_flow_fits_wholly_or_not_at_all(queue_of: QueueOf, group: Group) -> None:
    queue = queue_of(max_stream_len=3)
    with pytest.raises(QueueFull):
        await queue.start_flow(diamond())
    assert await group.length() == 0
    assert (await queue_of(max_stream_len=4).start_flow(diamond())).id
    assert await queue.drain() == 1


# --- plans that cannot be ----------------------------------------------------------------------------------------------


def test_two_jobs_of_one_key_are_refused() -> None:
    flow = Flow()
    flow.add("a", 1)
    with pytest.raises(BadFlow, match="two jobs have the key 'a'"):
        flow.add("a", 2)


@pytest.mark.parametrize("options", [{"delay_ms": 5}, {"lane": "x"}, {"job_id": "x"}])
def test_options_that_a_flow_decides_itself_are_refused(options: Any) -> None:
    with pytest.raises(BadFlow, match="cannot be set"):
        Flow().add("a", 1, **options)


async def test_a_flow_that_cannot_be_is_refused_before_anything_is_sent(queue: Queue, group: Group) -> None:
    circle = Flow()
    circle.add("a", 1, after=["c"])
    circle.add("b", 1, after=["a"])
    circle.add("c", 1, after=["b"])
    unknown = Flow()
    unknown.add("a", 1, after=["ghost"])
    rule = Flow()
    rule.add("a", 1)
    rule.add("b", 1, after=[After("a", "explode")])  # pyright: ignore[reportArgumentType] - what this test is about
    for flow, reason in ((Flow(), "no jobs"), (circle, "in a circle"), (unknown, "'ghost'"), (rule, "'explode'")):
        with pytest.raises(BadFlow, match=reason):
            await queue.start_flow(flow)
    assert await group.length() == 0


async def test_two_flows_do_not_mix(queue: Queue, worker_of: WorkerOf) -> None:
    runs = FlowRuns("left")
    async with worker_of(runs):
        first, second = await asyncio.gather(queue.start_flow(diamond()), queue.start_flow(diamond("ignore")))
        ends = await asyncio.gather(first.wait(timeout=limit(20)), second.wait(timeout=limit(20)))
    assert [states(end)["bottom"] for end in ends] == ["skipped", "done"]
    assert Counter(runs.order) == {"top": 2, "left": 2, "right": 2, "bottom": 1}
