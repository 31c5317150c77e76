"""One transaction of the work room: what it changes, and all that goes with a change.

Whoever changes messages hands over, beside the rows: what it adds to counters, events, audit rows, and which messages are
claimable once it is committed. All of it is written at the end of the same transaction; the order index and waiting claims are
told after the commit. Nothing of this can be forgotten, because there is no other way to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from relevo.contract.events import EventName
from relevo.work.caller import Caller
from relevo.work.faults import fault
from relevo.work.queue_record import QueueRecord
from relevo.work.store import outbox, tables
from relevo.work.store.audit_chain import Linking
from relevo.work.store.counters import CounterDelta
from relevo.work.store.interface import PlainRows, Row, Session
from relevo.work.store.outbox import PackedEvents, Values

Kind = Literal["publish", "claim", "settle", "review"]


class Ready(NamedTuple):
    """A message that is pending once the transaction is committed: for `ready`, the order index, and to wake who waits."""

    queue_id: int
    sort_key: int
    id: str
    labels: Mapping[str, str] | None = None
    """For those who wait for some labels only; None: not known here."""
    broadcast: bool = False
    """It waits for subscriptions: nobody claims it from here."""


class UnitOfWork:
    """Handed to every piece of work by `Transactions` and `FastTransactions`."""

    def __init__(self, session: Session, now_ms: int, *, is_unsure: bool = False) -> None:
        self.session = session
        self.now = now_ms
        self.is_unsure = is_unsure
        """Whether it was run before and met a `Disagreement`: nothing is known of messages but what their rows say."""
        self.counters = CounterDelta()
        self.ready: list[Ready] = []
        self.published: list[PlainRows] = []
        """Messages that are in `ready` already, for the order index, and to wake who waits."""
        self.wakes: dict[int, int] = {}
        """Messages to tell waiting claims of, by queue, that are in no order index (deliveries of a broadcast queue)."""
        self.due: list[tuple[str, int, str]] = []
        """Kind, time and message of what an agent has to look at then."""
        self.unsearched: list[str] = []
        """New messages that are found by more than queue and id; see store/search_index.py."""
        self.altered: list[str] = []
        """Messages that are found by something else from here on."""
        self.on_commit: list[Callable[[], None]] = []
        """What this process has to note once the transaction is committed."""
        self._events: list[PackedEvents] = []
        self._audits: list[Row] = []
        self._kinds: list[Kind] = []

    def begun(self, kind: Kind) -> None:
        """A step of this kind begins; names the fault points that the transaction passes from here on."""
        if kind not in self._kinds:
            self._kinds.append(kind)
        fault(f"{kind}.begun")

    def passed(self, point: str) -> None:
        for kind in self._kinds:
            fault(f"{kind}.{point}")

    def tell(
        self,
        event: EventName,
        queue_id: int,
        ids: list[str],
        message_types: str | list[str],
        correlation_ids: str | list[str],
        extras: Mapping[str, Values] | None = None,
    ) -> None:
        """Adds an event of each of these messages; after their rows were changed (see work/store/outbox.py)."""
        self._events.append(PackedEvents.of(event, queue_id, self.now, ids, message_types, correlation_ids, extras))

    def audit(
        self,
        caller: Caller,
        action: str,
        target: str,
        *,
        tenant_id: int | None = None,
        scope_id: int | None = None,
        queue_id: int | None = None,
        correlation_id: str | None = None,
        before: object = None,
        after: object = None,
    ) -> None:
        """Adds an audit row; `before` and `after` are written as JSON. Text is JSON already."""
        tenant = caller.tenant_id if tenant_id is None else tenant_id
        self._audits.append(
            (
                *(tenant, scope_id, queue_id, self.now, caller.actor, action, target[:200], caller.request_id[:40]),
                *(correlation_id, _as_json(before), _as_json(after)),
            )
        )

    def audit_messages(
        self, caller: Caller, action: str, queue: QueueRecord, ids: Sequence[str], *, known_queue: bool = True
    ) -> None:
        """One audit row for one call that did the same to several messages of a queue (or of its scope)."""
        listed = '","'.join(ids)
        self.audit(
            caller,
            action,
            ids[0],
            tenant_id=queue.tenant_id,
            scope_id=queue.scope_id,
            queue_id=queue.id if known_queue else None,
            after=f'{{"ids":["{listed}"]}}',
        )

    def note_due(self, message_id: str, columns: Mapping[str, Any]) -> None:
        """Has agents look at a message at the times that these columns of its name; and the search table, when it is now
        in a state that messages are found by."""
        for kind, name in tables.DUE.items():
            at = columns.get(name)
            if at is not None:
                self.due.append((kind, at, message_id))
        standing = columns.get("standing")
        if standing == "dead" and (died_at := columns.get("finished_at")) is not None:
            self.due.append(("dead", died_at, message_id))
        if standing is not None or columns.get("visible_at") is not None:
            self.altered.append(message_id)

    async def write(self, slot: int, linking: Linking) -> None:
        """Writes what was collected; the last thing before the commit."""
        session = self.session
        if self.ready:
            places = dict.fromkeys(each[:3] for each in self.ready)
            await session.insert(tables.ready, list(places))
        if self.due:
            await session.add_due(sorted(set(self.due)))
        if self._events:
            row = (self.now, outbox.encode(self._events))
            await session.insert(tables.outbox, [row], columns=_OUTBOX_COLUMNS)
        if self.unsearched or self.altered:
            fed = ((1, self.unsearched), (0, self.altered))
            rows = [(min(ids), fresh, msgspec.json.encode(ids).decode()) for fresh, ids in fed if ids]
            await session.insert(tables.search_feed, rows, columns=_FEED_COLUMNS)
        if counted := self.counters.rows(now_ms=self.now, slot=slot):
            await session.add_counters(counted)
        if self._audits:  # last: from here to the end of the commit nobody knows where the chain ends
            await linking.write(self._audits, session)


def _as_json(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


_OUTBOX_COLUMNS = ("created_at", "events")
_FEED_COLUMNS = ("first_id", "fresh", "ids")
