"""The one way to change a message's state: `apply` does all acts of a transition, so that none is forgotten and all agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from relevo.contract.messages import State
from relevo.work.caller import Caller
from relevo.work.message.failure import Failure
from relevo.work.message.history import history_line
from relevo.work.message.model import TERMINAL
from relevo.work.message.standing import claimed_line
from relevo.work.message.transition import Transition
from relevo.work.store.interface import LockedDelivery, LockedMessage, MessageUpdate
from relevo.work.store.tables import STANDINGS, deliveries
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import Ready, UnitOfWork


class Home(Protocol):
    """The queue that a message is worked on in: of a dead letter the one it came from."""

    @property
    def id(self) -> int: ...
    @property
    def dead_letter_id(self) -> int: ...
    @property
    def consumer_mode(self) -> str: ...


class Change(NamedTuple):
    """A locked row, and what of its change is its own."""

    row: LockedMessage | LockedDelivery
    reason: str | None = None
    """Kept in the row, and told."""
    failure: Failure | None = None
    """What was raised; without one a reason to end is all there is."""
    detail: str | None = None
    """In the history, when the reason is not."""
    told: Mapping[str, int | str] = {}
    """What the events say beside."""
    columns: Mapping[str, Any] = {}
    """New values that neither the transition nor the states say."""


async def apply(
    unit: UnitOfWork, transition: Transition, home: Home, changes: Sequence[Change], by: Caller, **audited: Any
) -> None:
    """Changes messages that are worked on in one queue, or deliveries of such: their rows and histories, depths, usage,
    events, the order, and the audit, which says `audited` beside the ids."""
    if not changes:
        return
    updates: list[MessageUpdate] = []
    left: list[tuple[int, int, str]] = []
    for change in changes:
        row = change.row
        assert row.state in transition.before, f"cannot {transition.name} {row.id}: it is {row.state}"
        after = transition.after or row.state
        columns = _columns(transition, home, change, unit.now)
        line = _line(transition.history, change, unit.now, by) if transition.history else ""
        updates.append(MessageUpdate(row, columns, line))
        _count(unit, transition, home, row, after, columns)
        _tell(unit, transition, home, change)
        if isinstance(row, LockedMessage):
            unit.note_due(row.id, columns)
            left += _order(unit, home, row, after, columns)
        elif after == "pending":
            unit.wakes[home.id] = unit.wakes.get(home.id, 0) + 1
    if isinstance(changes[0].row, LockedMessage):
        await unit.session.update_messages(updates)
        if left:
            await unit.session.leave_ready(left)
    else:
        assert isinstance(unit, SqlUnitOfWork)
        await unit.update_deliveries(updates)
    if transition.action:
        _audit(unit, transition, home, [change.row for change in changes], by, audited)


def held_ms(row: LockedMessage | LockedDelivery, now: int) -> int:
    """How long its worker has had it."""
    claimed_at = row.lease.claimed_at if isinstance(row, LockedMessage) and row.lease is not None else row.claimed_at
    return max(0, now - (claimed_at or now))


def _columns(transition: Transition, home: Home, change: Change, now: int) -> dict[str, Any]:
    row = change.row
    after: State = transition.after or row.state
    columns: dict[str, Any] = {"state": after, "updated_at": now}
    if after != row.state:
        columns |= {"visible_at": None, "finished_at": now if after in TERMINAL else None}
    if row.state == "claimed" and after != "claimed":
        columns["claim_until"] = None
        if after != "completed":  # who did it, and the token by which the same settle is known, stay
            columns |= {"claim_token": None, "claimed_by": None, "claimed_at": None}
    if transition.attempts:
        columns["attempts"] = row.attempts + transition.attempts
    if transition.reclaims:
        columns["reclaims"] = row.reclaims + transition.reclaims
    if after == "dead":
        columns |= {"queue_id": home.dead_letter_id, "origin_queue_id": home.id}
    elif row.state == "dead" and after in ("pending", "claimed"):
        columns |= {"queue_id": home.id, "origin_queue_id": None}
    if change.reason is not None:
        columns["failure_reason"] = change.reason
        failure = change.failure or (Failure(message=change.reason) if after in ("dead", "failed") else None)
        if failure is not None:
            columns["error"] = failure.encoded()
    columns |= change.columns
    if isinstance(row, LockedDelivery):
        return {name: value for name, value in columns.items() if name in deliveries.columns}
    return _as_kept(row, columns)


def _as_kept(row: LockedMessage, columns: dict[str, Any]) -> dict[str, Any]:
    """What of it a message's row says: see `live` among the tables."""
    after = columns.pop("state")
    columns["standing"] = after if after in STANDINGS else None
    columns["attempts"] = columns.get("attempts", row.attempts) - (after == "claimed")
    if row.state == "claimed" and after != "claimed":
        columns["claim_no"] = row.claim_no + 1
    return columns


def _line(event: str, change: Change, now: int, by: Caller) -> str:
    row, detail = change.row, change.detail or change.reason
    if isinstance(row, LockedDelivery):
        told = f"subscription {row.subscription}" + ("" if detail is None else f": {detail}")
        return history_line(now, event, by.actor, told)
    line = history_line(now, event, by.actor, detail)
    if row.lease is None or row.claim_until is not None:  # an extended claim has been told
        return line
    return claimed_line(row.lease) + line


def _count(
    unit: UnitOfWork,
    transition: Transition,
    home: Home,
    row: LockedMessage | LockedDelivery,
    after: State,
    columns: Mapping[str, Any],
) -> None:
    counters = unit.counters
    if isinstance(row, LockedMessage):  # a depth counts messages, in however many subscriptions
        counters.moved(row.queue_id, row.state, None)
        counters.moved(columns.get("queue_id", row.queue_id), None, after)
    for name in transition.usage:
        counters.add(home.id, name, held_ms(row, unit.now) if name == "handler_ms" else 1)


def _tell(unit: UnitOfWork, transition: Transition, home: Home, change: Change) -> None:
    row = change.row
    told: dict[str, int | str] = {"attempt": row.attempts}
    if "handler_ms" in transition.usage:
        told["duration_us"] = held_ms(row, unit.now) * 1000
    if change.reason is not None:
        told |= (change.failure or Failure(message=change.reason)).extras(change.reason)
    if isinstance(row, LockedDelivery):
        told["subscription"] = row.subscription
    told |= change.told
    for event in transition.events:
        unit.tell(event, home.id, [row.id], row.message_type, row.correlation_id, told)


def _order(
    unit: UnitOfWork, home: Home, row: LockedMessage, after: State, columns: Mapping[str, Any]
) -> list[tuple[int, int, str]]:
    """Has it enter `ready`, or another place there; the place that it leaves, if any."""
    before = (row.queue_id, row.sort_key, row.id) if row.state == "pending" else None
    place = (columns.get("queue_id", row.queue_id), columns.get("sort_key", row.sort_key), row.id)
    if after == "pending" and place != before:
        unit.ready.append(Ready(*place, broadcast=home.consumer_mode == "broadcast"))
    return [before] if before is not None and (after != "pending" or place != before) else []


def _audit(
    unit: UnitOfWork,
    transition: Transition,
    home: Home,
    rows: Sequence[LockedMessage | LockedDelivery],
    by: Caller,
    audited: Mapping[str, Any],
) -> None:
    first, states = rows[0], {row.state for row in rows}
    unit.audit(
        by,
        transition.action,
        first.id,
        tenant_id=first.tenant_id,
        scope_id=first.scope_id,
        queue_id=home.id,
        correlation_id=first.correlation_id if len(rows) == 1 else None,
        before={"state": first.state} if len(states) == 1 else None,
        after={"ids": [row.id for row in rows], "state": transition.after or first.state, **audited},
    )
