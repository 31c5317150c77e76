"""The table of transitions, line by line: rows, depths, usage, events, history, order and audit say the same afterwards."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from sqlalchemy import Select, select

from relevo.contract.claims import Claimed
from relevo.contract.messages import State
from relevo.work.message.history import steps
from relevo.work.message.model import TERMINAL
from relevo.work.message.transition import PUBLISH, TRANSITIONS, Transition
from relevo.work.store.counters import COUNTED_STATES, TALLIES
from relevo.work.store.outbox import WorkEvent, decode
from relevo.work.store.tables import audit, outbox
from relevo.work.store.unit_of_work import Ready
from tests.support.desk import JOBS, SCOPE, Desk, new, tallied

DEAD_LETTER = "_dead_letter"
USAGE = tuple(name for name in TALLIES if name not in COUNTED_STATES)
HELD_MS = 250


class Act(NamedTuple):
    """A message that is brought to where the transition begins, and what makes it happen."""

    message_id: str | None
    """None: it is new."""
    happen: Callable[[], Awaitable[Any]]
    beside: Transition | None = None
    """What happens to another message of the queue."""


Case = Callable[[Desk, State | None], Awaitable[Act]]


# --- how messages get into the states that transitions begin in -----------------------------------------------------------


async def waiting(desk: Desk, state: State | None = "pending") -> str:
    (message_id,) = await desk.ids(new(0, delay_s=600) if state == "delayed" else new(0))
    return message_id


async def claimed(desk: Desk) -> Claimed:
    await desk.ids(new(0))
    (message,) = await desk.claim()
    desk.clock.turn(HELD_MS / 1000)
    return message


async def unclaimed(desk: Desk, state: State | None) -> str:
    if state not in ("dead", "in_review"):
        return await waiting(desk, state)
    (message_id,) = await desk.die()
    if state == "in_review":
        await desk.work_queues.reviews.open_for_dead_letter(desk.caller, SCOPE, message_id)
    return message_id


# --- what makes each transition happen ------------------------------------------------------------------------------------


async def publish(desk: Desk, _: State | None) -> Act:
    return Act(None, lambda: desk.ids(new(0)))


async def publish_delayed(desk: Desk, _: State | None) -> Act:
    return Act(None, lambda: desk.ids(new(0, delay_s=600)))


async def claim(desk: Desk, _: State | None) -> Act:
    return Act(await waiting(desk), desk.claim)


def verdict(name: Any, **fields: Any) -> Case:
    async def case(desk: Desk, _: State | None) -> Act:
        message = await claimed(desk)
        return Act(message.id, lambda: desk.settle(name, message, **fields))

    return case


async def retry_at_once(desk: Desk, state: State | None) -> Act:
    await desk.work_queues.queues.change(desk.caller, SCOPE, JOBS, {"backoff_initial_ms": 0, "backoff_jitter_ms": 0})
    return await verdict("fail")(desk, state)


async def reprioritise(desk: Desk, state: State | None) -> Act:
    message_id = await waiting(desk, state)
    move = desk.work_queues.messages.reprioritise
    return Act(message_id, lambda: move(desk.caller, SCOPE, message_id, tier="high"))


async def cancel(desk: Desk, state: State | None) -> Act:
    message_id = await unclaimed(desk, state)
    return Act(message_id, lambda: desk.work_queues.messages.cancel(desk.caller, SCOPE, message_id))


async def bury(desk: Desk, state: State | None) -> Act:
    change = {"max_depth": 1, "overflow_policy": "dead_letter_oldest"}
    await desk.work_queues.queues.change(desk.caller, SCOPE, JOBS, change)
    return Act(await waiting(desk, state), lambda: desk.ids(new(1)), beside=PUBLISH)


CASES: dict[str, Case] = {
    "publish": publish,
    "publish_delayed": publish_delayed,
    "claim": claim,
    "extend": verdict("extend", seconds=60),
    "complete": verdict("complete"),
    "reprioritise": reprioritise,
    "release": verdict("release"),
    "retry": verdict("fail"),
    "retry_at_once": retry_at_once,
    "cancel": cancel,
    "bury": bury,
    "give_up": verdict("fail", dead=True),
}


# --- the test -------------------------------------------------------------------------------------------------------------


def test_every_transition_has_a_case() -> None:
    assert CASES.keys() == {transition.name for transition in TRANSITIONS}


@pytest.mark.parametrize(
    ("transition", "before"),
    [(each, state) for each in TRANSITIONS for state in sorted(each.before) or [None]],
    ids=lambda value: value.name if isinstance(value, Transition) else str(value),
)
async def test_all_that_goes_with_a_transition_agrees(
    desk: Desk, transition: Transition, before: State | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await desk.queue(ordering="priority", backoff_initial_ms=60_000)
    message_id, happen, beside = await CASES[transition.name](desk, before)
    seen = Seen(desk, monkeypatch)
    await seen.look()
    old = None if message_id is None else await desk.row(message_id)
    await happen()
    message_id = message_id or (await desk.all())[-1].id
    row = await desk.row(message_id)
    assert (None if old is None else old["state"]) == before

    state = transition.after or before
    assert row["state"] == state
    assert (row["visible_at"] is not None, row["claim_until"] is not None) == (state == "delayed", state == "claimed")
    assert (row["finished_at"] is not None) == (state in TERMINAL)
    assert row["queue_id"] == (await desk.work_queues.queues.lookup(desk.caller, SCOPE, _place(state, before))).id
    attempts, reclaims = (0, 0) if old is None else (old["attempts"], old["reclaims"])
    assert (row["attempts"], row["reclaims"]) == (attempts + transition.attempts, reclaims + transition.reclaims)

    for place in (JOBS, DEAD_LETTER):
        counted = {name: count for name, count in (await desk.depth(place))._asdict().items() if count}
        rows = {name: count for name, count in (await desk.states(place)).items() if name in COUNTED_STATES}
        assert counted == rows, place
    events = await seen.events(message_id)
    expected = Counter({name: _amount(name, row, events) for name in transition.usage})
    expected.update({} if beside is None else {name: _amount(name, row, events) for name in beside.usage})
    assert await seen.usage() == expected
    assert [(event.event, event.queue_id) for event in events] == [(event, queue.id) for event in transition.events]
    told = [step.event for step in steps(row["trail"])][0 if old is None else len(steps(old["trail"])) :]
    assert told == [transition.history] * bool(transition.history)
    place = [(row["queue_id"], row["sort_key"])] if state == "pending" else []
    assert [(ready.queue_id, ready.sort_key) for ready in seen.ready if ready.id == message_id] == place
    assert await seen.actions(message_id) == [transition.action] * bool(transition.action)


def _place(state: str | None, before: str | None) -> str:
    dead = {"dead", "in_review"}
    return DEAD_LETTER if state == "dead" or (state not in ("pending", "delayed") and before in dead) else JOBS


def _amount(name: str, row: dict[str, Any], events: Sequence[WorkEvent]) -> int:
    if name == "published_bytes":
        return len(row["body"])
    if name != "handler_ms":
        return 1
    held_us = int((events[0].extras or {})["duration_us"])
    assert held_us >= HELD_MS * 1000
    return held_us // 1000


class Seen:
    """What was there before the transition, and what it added."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ready: list[Ready] = []
        self._desk = desk
        self._usage: dict[str, dict[str, int]] = {}
        self._outbox: set[int] = set()
        self._audits = 0
        add = desk.work_queues.ready_index.add

        async def told(ready: Sequence[Ready]) -> None:
            self.ready += ready
            await add(ready)

        monkeypatch.setattr(desk.work_queues.ready_index, "add", told)

    async def look(self) -> None:
        self._usage = {queue: await self._tallied(queue) for queue in (JOBS, DEAD_LETTER)}
        self._outbox = {row.id for row in await self._rows(select(outbox))}
        self._audits = len(await self._entries())

    async def usage(self) -> dict[str, int]:
        """What was added to the usage of the queue; the one of dead letters has none of its own."""
        added = {
            queue: {name: after[name] - before[name] for name in USAGE if after[name] != before[name]}
            for queue, before in self._usage.items()
            for after in [await self._tallied(queue)]
        }
        assert added[DEAD_LETTER] == {}
        return added[JOBS]

    async def events(self, message_id: str) -> list[WorkEvent]:
        rows = [row for row in await self._rows(select(outbox).order_by(outbox.c.id)) if row.id not in self._outbox]
        return [event for row in rows for event in decode(row.events) if event.id == message_id]

    async def actions(self, message_id: str) -> list[str]:
        """Of the new audit rows that name the message."""
        rows = (await self._entries())[self._audits :]
        return [
            row.action for row in rows if message_id in msgspec.json.decode(row.after or "{}").get("ids", [row.target])
        ]

    async def _tallied(self, queue: str) -> dict[str, int]:
        record = await self._desk.work_queues.queues.lookup(self._desk.caller, SCOPE, queue)
        return await tallied(self._desk.work_queues, record.id)

    async def _entries(self) -> Sequence[Any]:
        own = audit.c.tenant_id == self._desk.caller.tenant_id
        return await self._rows(select(audit).where(own).order_by(audit.c.id))

    async def _rows(self, query: Select[Any]) -> Sequence[Any]:
        async with self._desk.work_queues.database.connect() as connection:
            return (await connection.execute(query)).all()
