"""Flows: jobs that wait for others. A flow is a graph of jobs of one queue; each starts when all before it have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple, cast, overload

from relevo.arguments import checked_name, instance
from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, pairs
from relevo.broker.scripts import script
from relevo.engine.job.add_options import AddOptions
from relevo.engine.job.parent_result import ParentResult
from relevo.engine.producing.call import Call
from relevo.engine.producing.cancellation import Cancellations
from relevo.engine.producing.job_encoder import JobEncoder
from relevo.errors import BadFlow, ConnectionLost, QueueFull, WrongType
from relevo.wire.backoff import retry_override
from relevo.wire.delayed import DelayedMember
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes
from relevo.wire.payload import decode_payload

START_FLOW = script("start_flow", __name__)
CANCEL_FLOW = script("cancel_flow", __name__)

SCRIPTS = (START_FLOW, CANCEL_FLOW)

OnFailure = Literal["fail", "ignore", "continue"]

KEPT_S = 24 * 3600


class After(NamedTuple):
    """A job to wait for, and what its failure means: `fail` (this one is skipped), `ignore` (it runs, without that result)
    or `continue` (it runs and sees the failure among its parents' results)."""

    key: str
    on_failure: OnFailure = "fail"


@dataclass(frozen=True)
class _Node:
    key: str
    name: str
    data: Any
    after: tuple[After, ...]
    options: dict[str, Any]


def _several(after: object) -> Sequence[str | After]:
    if isinstance(after, str | After) or not isinstance(after, Collection):
        remedy = f"Pass [{after!r}]." if isinstance(after, str | After) else "Pass a list of keys."
        raise WrongType(argument="after", value=after, expected="a list of str or After", remedy=remedy)
    for each in cast("Collection[object]", after):
        checked_name("after element", each.key if isinstance(each, After) else each)
    return cast("Sequence[str | After]", after)


@dataclass
class Flow:
    """The plan of a flow.

    >>> flow = Flow()
    >>> _ = flow.add("fetch", {"page": 1}, key="one")
    >>> _ = flow.add("fetch", {"page": 2}, key="two")
    >>> flow.add("merge", {}, after=["one", After("two", "ignore")])
    'merge'
    """

    _nodes: dict[str, _Node] = field(default_factory=dict[str, _Node], init=False)

    @overload
    def add(self, name: Call, *, key: str | None = None, after: Sequence[str | After] = ()) -> str: ...
    @overload
    def add(
        self, name: str, data: Any, *, key: str | None = None, after: Sequence[str | After] = (), **options: Any
    ) -> str: ...
    def add(
        self,
        name: str | Call,
        data: Any = None,
        *,
        key: str | None = None,
        after: Sequence[str | After] = (),
        **options: Any,
    ) -> str:
        """Adds a job, by name and data or as a call of a task (`flow.add(merge.call(...), after=["one"])`). `key` (else the
        name) is what others wait for and what its result is found under. Options are those of `Queue.add` that concern the run
        itself: attempts, backoff; a call brings its own."""
        if isinstance(name, Call):
            options = {**name.options, **options}
            name, data = name.name, name.data
        instance(
            "name", name, str, remedy="Pass the name of a job and its data, or a call of a task: `task.call(...)`."
        )
        chosen = name if key is None else checked_name("key", key)
        if "\n" in chosen:
            raise BadFlow(reason=f"the key {chosen!r} has two lines", remedy="Use one.")
        if chosen in self._nodes:
            raise BadFlow(reason=f"two jobs have the key {chosen!r}", remedy="Pass `key=` to tell them apart.")
        unknown = set(options) - {"attempts", "backoff"}
        if unknown:
            raise BadFlow(reason=f"{sorted(unknown)} cannot be set on a job of a flow", remedy="Use attempts, backoff.")
        retry_override(options.get("attempts"), options.get("backoff"))  # refuses here what the start would refuse
        waits_for = tuple(each if isinstance(each, After) else After(each) for each in _several(after))
        self._nodes[chosen] = _Node(chosen, name, data, waits_for, options)
        return chosen

    def __len__(self) -> int:
        return len(self._nodes)

    def in_order(self) -> list[_Node]:
        """The jobs, each behind those it waits for; refuses a circle and a job that nobody added."""
        if not self._nodes:
            raise BadFlow(reason="it has no jobs", remedy="Add some.")
        for node in self._nodes.values():
            for before in node.after:
                if before.key not in self._nodes:
                    raise BadFlow(reason=f"{node.key!r} waits for {before.key!r}, which is not there", remedy="Add it.")
                if before.on_failure not in ("fail", "ignore", "continue"):
                    remedy = "Write 'fail', 'ignore' or 'continue'."
                    raise BadFlow(reason=f"on_failure={before.on_failure!r} is unknown", remedy=remedy)
        graph = {key: [before.key for before in node.after] for key, node in self._nodes.items()}
        try:
            return [self._nodes[key] for key in TopologicalSorter(graph).static_order()]
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise BadFlow(reason=f"its jobs wait for each other in a circle: {circle}", remedy="Break it.") from error


class FlowState(NamedTuple):
    """Where a flow is: `state` is running, done or failed; each job's own state by its key."""

    state: str
    jobs: dict[str, ParentResult]


class Flows:
    """The flows of one queue."""

    def __init__(self, link: Link, keys: QueueKeys) -> None:
        self._link = link
        self._keys = keys

    async def start_flow(
        self,
        flow: Flow,
        encoder: JobEncoder,
        *,
        cap: int,
        wait_s: float = 30.0,
        trace: dict[str, str] | None = None,
    ) -> FlowRun:
        """Stores the flow and queues the jobs that wait for nobody; the rest follows by itself, whoever runs them."""
        nodes = flow.in_order()
        numbers = {node.key: number for number, node in enumerate(nodes)}
        children: dict[str, list[str]] = {node.key: [] for node in nodes}
        for node in nodes:
            for before in node.after:
                children[before.key].append(f"{numbers[node.key]}{before.on_failure[0]}")
        flow_id = encoder.mint(time.time_ns() // 1_000_000)
        plan = "\n".join(node.key for node in nodes)
        arguments: list[Argument] = [self._keys.tag, cap, KEPT_S, plan, len(nodes)]
        for number, node in enumerate(nodes):
            options = AddOptions(job_id=f"{flow_id}.{number}.{node.key}", **node.options)
            encoded = encoder.encode(node.name, node.data, options)
            member = DelayedMember(node.name, encoded.envelope).encode()
            notes = Notes(flow=f"{flow_id}/{number}", trace=trace).encode()
            arguments += (member, len(node.after), ",".join(children[node.key]), notes)
        verdict = await self._start(flow_id, arguments, wait_s)
        if verdict == -1:
            raise QueueFull(queue=self._keys.queue, length=cap, cap=cap)
        return FlowRun(self, flow_id)

    async def _start(self, flow_id: str, arguments: list[Argument], wait_s: float) -> Reply:
        """Sent again after a lost connection: a flow of that id starts once."""
        given_up = time.monotonic() + wait_s
        while True:
            try:
                await self._link.ready(wait=max(0.001, given_up - time.monotonic()))
                return await self._link.run(START_FLOW, [self._keys.flow(flow_id), self._keys.stream], *arguments)
            except ConnectionLost:
                if self._link.closed:
                    raise

    async def state(self, flow_id: str) -> FlowState:
        stored = pairs(await self._link.call("HGETALL", self._keys.flow(flow_id)))
        if not stored:
            raise BadFlow(reason=f"there is no flow {flow_id!r} (any more)", remedy=f"Flows are kept {KEPT_S} s.")
        jobs = {key: _result(stored, number) for number, key in enumerate(_keys_of(stored))}
        return FlowState(stored.get(b"state", b"running").decode(), jobs)

    async def parent_results(self, place: str) -> dict[str, ParentResult]:
        flow_id, _, number = place.rpartition("/")
        stored = pairs(await self._link.call("HGETALL", self._keys.flow(flow_id)))
        keys = _keys_of(stored)
        rules = {key: _rule(stored, at, number) for at, key in enumerate(keys)}
        results = {key: _result(stored, at) for at, key in enumerate(keys) if rules[key]}
        return {key: each for key, each in results.items() if each.state == "done" or rules[key] == "c"}

    async def cancel_flow(self, flow_id: str) -> int:
        """Cancels what has not ended; the number of jobs that were running or on their way."""
        count = len(_keys_of(pairs(await self._link.call("HGETALL", self._keys.flow(flow_id)))))
        running: Reply = await self._link.run(CANCEL_FLOW, [self._keys.stream], self._keys.tag, flow_id, count)
        keys = _keys_of(pairs(await self._link.call("HGETALL", self._keys.flow(flow_id))))
        for number in running:
            await Cancellations(self._link, self._keys).cancel(f"{flow_id}.{number}.{keys[int(number)]}")
        return len(running)


class FlowRun:
    """A flow that was started."""

    def __init__(self, flows: Flows, flow_id: str) -> None:
        self.id = flow_id
        self._flows = flows

    async def state(self) -> FlowState:
        return await self._flows.state(self.id)

    async def wait(self, *, timeout: float = 60.0) -> FlowState:
        """The state once nothing is left to run, or `TimeoutError`."""
        pause = 0.02
        async with asyncio.timeout(timeout):
            while (state := await self.state()).state == "running":
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.5)
        return state

    async def cancel(self) -> int:
        """Cancels the rest of it: what waits never starts, what runs is cancelled; how many were running."""
        return await self._flows.cancel_flow(self.id)


def _keys_of(stored: dict[bytes, bytes]) -> list[str]:
    return stored.get(b"keys", b"").decode().split("\n") if stored.get(b"keys") else []


def _rule(stored: dict[bytes, bytes], parent: int, number: str) -> str:
    """f, i or c when node `number` is a child of `parent`, else nothing."""
    for edge in stored.get(b"c:%d" % parent, b"").decode().split(","):
        if edge[:-1] == number:
            return edge[-1]
    return ""


def _result(stored: dict[bytes, bytes], number: int) -> ParentResult:
    state: Any = stored.get(b"s:%d" % number, b"waiting").decode()
    said = stored.get(b"r:%d" % number, b"")
    if state == "done":
        return ParentResult(state, decode_payload(said) if said else None, "")
    return ParentResult(state, None, said.decode(errors="replace"))
