"""Random flows with random failures: every job ends, in the state that a plain model says, and nothing is left behind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relevo import After, BackoffSpec, Flow, Job, Queue, UnrecoverableError, Worker
from tests.pace import limit
from tests.patience import until
from tests.servers.server import Server

Fate = Literal["ok", "retried", "fails", "exhausted"]
FATES: list[Fate] = ["ok", "ok", "ok", "retried", "fails", "exhausted"]


@dataclass(frozen=True)
class Node:
    fate: Fate
    after: dict[int, str]
    """Numbers of earlier nodes, and the rule for each."""


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 9))):
        parents = draw(st.sets(st.integers(0, number - 1), max_size=4)) if number else set[int]()
        rules = {parent: draw(st.sampled_from(["fail", "ignore", "continue"])) for parent in sorted(parents)}
        nodes.append(Node(draw(st.sampled_from(FATES)), rules))
    return nodes


def expected(nodes: list[Node]) -> list[str]:
    """What becomes of each node, by the rules as the documentation words them."""
    states: list[str] = []
    for node in nodes:
        if any(rule == "fail" and states[parent] != "done" for parent, rule in node.after.items()):
            states.append("skipped")
        else:
            states.append("done" if node.fate in ("ok", "retried") else "failed")
    return states


def seen_parents(node: Node, states: list[str]) -> dict[str, str]:
    return {
        str(parent): states[parent]
        for parent, rule in node.after.items()
        if states[parent] == "done" or rule == "continue"
    }


class Handler:
    def __init__(self, nodes: list[Node]) -> None:
        self.runs: Counter[int] = Counter()
        self.parents: dict[int, dict[str, str]] = {}
        self._nodes = nodes

    async def __call__(self, job: Job) -> Any:
        number: int = job.data
        self.runs[number] += 1
        results = await job.parent_results()
        self.parents[number] = {key: each.state for key, each in results.items()}
        assert all(each.value == f"of {key}" for key, each in results.items() if each.state == "done")
        fate: Fate = self._nodes[number].fate
        if fate == "fails":
            raise UnrecoverableError("for good")
        if fate == "exhausted" or (fate == "retried" and job.attempt == 0):
            raise ValueError("this time")
        return f"of {number}"


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(nodes=graphs())
async def test_no_flow_is_ever_stuck_and_each_job_ends_as_the_model_says(
    valkey: Server, queue_name: str, nodes: list[Node]
) -> None:
    flow = Flow()
    for number, node in enumerate(nodes):
        after = [After(str(parent), rule) for parent, rule in node.after.items()]  # pyright: ignore[reportArgumentType]
        flow.add("node", number, key=str(number), after=after, attempts=2, backoff=BackoffSpec.fixed(1))
    handler = Handler(nodes)
    options: dict[str, Any] = {"read_block_ms": 50, "promote_every_ms": 5, "concurrency": 4}
    async with (
        Queue(queue_name, redis_url=valkey.url) as queue,
        Worker(queue_name, handler, redis_url=valkey.url, **options),
        Worker(queue_name, handler, redis_url=valkey.url, **options),
    ):
        run = await queue.start_flow(flow)
        state = await run.wait(timeout=limit(30))

        async def empty() -> bool:
            return not any((await queue.get_job_counts("waiting", "active", "delayed")).values())

        await until(empty)  # the last settle is answered a moment after the flow has ended
    states = expected(nodes)
    assert [state.jobs[str(number)].state for number in range(len(nodes))] == states
    assert state.state == ("done" if set(states) == {"done"} else "failed")
    tries = {"ok": 1, "retried": 2, "fails": 1, "exhausted": 2}
    ran = {number: tries[node.fate] for number, node in enumerate(nodes) if states[number] != "skipped"}
    assert handler.runs == ran
    assert handler.parents == {number: seen_parents(nodes[number], states) for number in ran}
