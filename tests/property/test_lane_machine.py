"""Random adds, runs, failures, removals and new limits on lanes: each lane keeps its order and its limit, nothing is lost."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relevo import LaneLimit, Queue
from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.engine.events.event_log import EventLog
from relevo.engine.lanes.lane_dispatcher import DISPATCH_LANES, RELEASE_GONE, LaneDispatcher
from relevo.engine.service.leader_loop import HOLD_LOCK, RELEASE_LOCK
from relevo.engine.settling.delivery import Completed, DeadLettered, Delivery, HeldDeliveries, Retry
from relevo.engine.settling.outcome import OutcomeBatch
from relevo.engine.settling.settle_request import SCRIPTS, SettleContext, SettleRequest
from relevo.wire.dead import DeadLetterFields, Reason
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes
from tests.servers.server import Server

LANES = ["a", "b", "c"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(LANES), st.integers(1, 4)),
        st.tuples(st.sampled_from(["done", "dead", "park", "remove"]), st.sampled_from(LANES), st.integers(0, 3)),
        st.tuples(st.just("limit"), st.sampled_from([*LANES, "*"]), st.integers(0, 3)),
    ),
    min_size=5,
    max_size=30,
)


@dataclass
class Model:
    """What the lanes should hold: jobs in their order, and how many of them have left."""

    waiting: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list[str]))
    flying: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list[str]))
    limits: dict[str, int] = field(default_factory=dict[str, int])

    def limit(self, lane: str) -> int:
        return self.limits.get(lane, self.limits.get("*", 0)) or 1_000_000

    def move(self) -> None:
        for lane in LANES:
            while self.waiting[lane] and len(self.flying[lane]) < self.limit(lane):
                self.flying[lane].append(self.waiting[lane].pop(0))


class Lanes:
    """The product, driven step by step: settles as a worker does, without its timing."""

    def __init__(self, url: str, keys: QueueKeys) -> None:
        scripts = (*SCRIPTS, DISPATCH_LANES, RELEASE_GONE, HOLD_LOCK, RELEASE_LOCK)
        self.link = Link(Address.parse(url), keys.tag, purpose="lanes", scripts=scripts)
        self.keeper = LaneDispatcher(self.link, keys, "default", "holder")
        self._keys = keys
        holdings, events = HeldDeliveries(idle_s=30), EventLog(keys, enabled=False)
        self._desk = SettleContext(self.link, keys, "default", "c-1", holdings, events, result_ttl_s=60, dlq_cap=100)
        self._entries: dict[str, tuple[bytes, Envelope]] = {}

    async def out(self) -> list[str]:
        """Ids of the jobs in the stream, in its order; read as a worker would."""
        await self.link.call("XREADGROUP", "GROUP", "default", "c-1", "COUNT", 1000, "STREAMS", self._keys.stream, ">")
        found = await self.link.call("XRANGE", self._keys.stream, "-", "+")
        envelopes = [(entry_id, Envelope.decode(fields[1])) for entry_id, fields in found]
        self._entries = {envelope.id: (entry_id, envelope) for entry_id, envelope in envelopes}
        return [envelope.id for _, envelope in envelopes]

    async def settle(self, how: str, job_id: str, lane: str) -> None:
        entry_id, envelope = self._entries[job_id]
        delivery = Delivery(entry_id, envelope, "job", 0, 1e12)
        delivery.notes = Notes(lane=lane)
        outcomes = OutcomeBatch()
        if how == "done":
            outcomes.put(Completed(delivery, b""))
        elif how == "dead":
            letter = DeadLetterFields(envelope.encode(), "job", entry_id.decode(), Reason.UNRECOVERABLE, "no")
            outcomes.put(DeadLettered(delivery, letter, 1))
        else:
            outcomes.put(Retry(delivery, 0, DelayedMember("job", envelope.encode()).encode(), parked=True))
        await self.link.ready()
        flush = SettleRequest(self._desk, outcomes)
        flush.read(await self.link.send(flush.data, flush.count))
        settled = flush.settlement
        assert (settled.done, settled.dead, settled.parked, settled.lost) != (0, 0, 0, 0)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
async def test_lanes_keep_order_and_limits_whatever_happens(
    redis7: Server, queue_name: str, steps: list[tuple[str, str, int]]
) -> None:
    keys, model = QueueKeys(queue_name), Model()
    redis7.call("FLUSHALL")
    redis7.call("XGROUP", "CREATE", keys.stream, "default", "0", "MKSTREAM")
    lanes = Lanes(redis7.url, keys)
    async with Queue(queue_name, redis_url=redis7.url) as queue:
        for what, lane, count in steps:
            await step(queue, lanes, model, what, lane, count)
            await lanes.keeper.tick()
            model.move()
            out = await lanes.out()
            for each in LANES:
                assert [job_id for job_id in out if job_id in model.flying[each]] == model.flying[each]
                state = await queue.lanes.state(each)
                assert (state.waiting, state.flying) == (len(model.waiting[each]), len(model.flying[each]))
            assert len(out) == sum(map(len, model.flying.values()))
            assert await queue.lanes.waiting() == {each: len(ids) for each, ids in model.waiting.items() if ids}
        await queue.obliterate(force=True)
    await lanes.link.close()


async def step(queue: Queue, lanes: Lanes, model: Model, what: str, lane: str, count: int) -> None:
    if what == "add":
        jobs = await queue.add_bulk([{"name": "job", "data": None, "lane": lane}] * count)
        model.waiting[lane] += [job.id for job in jobs]
    elif what == "limit":
        if count:
            await queue.lanes.limit(lane, LaneLimit(concurrency=count))
            model.limits[lane] = count
        else:
            assert await queue.lanes.unlimit(lane) == (lane in model.limits)
            model.limits.pop(lane, None)
    elif what == "remove":
        if count < len(model.waiting[lane]):
            assert await queue.remove(model.waiting[lane].pop(count)) == 1
    elif count < len(model.flying[lane]):
        job_id = model.flying[lane].pop(count)
        await lanes.settle(what, job_id, lane)
        if what == "park":  # it keeps its place at the head
            model.waiting[lane].insert(0, job_id)
