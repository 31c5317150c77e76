"""What rules do with messages to which something happened: completed, failed, expired, dead, decided by a person.

The events of such a happening leave the outbox in one transaction with a row of `routings`, if a rule of the scope waits for
them. The agent `message_router` takes these rows one by one: the journey is worked out first, and carried out in one
transaction that also deletes the row, over the very state of the message that it was worked out for. So a kill at any moment
leaves either the row, and all is still to be done, or none, and all is done: no copy is lost, and none is made twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update

from relevo.errors import NotFound, ReplayLoop, StoreUnavailable
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.faults import fault
from relevo.work.message import archive
from relevo.work.message.failure import failure_of
from relevo.work.message.history import steps
from relevo.work.message.model import TIERS
from relevo.work.queue_record import QueueRecord
from relevo.work.review.outcomes import require_replays_left
from relevo.work.routing.plan import Draft
from relevo.work.routing.route_plan import Destination, RoutePlan, RoutePlanner
from relevo.work.routing.route_writer import RouteWriter, state_of
from relevo.work.routing.rules import TRIGGER_OF, Rules
from relevo.work.store.database import Database
from relevo.work.store.outbox import OutboxRow
from relevo.work.store.tables import archive as archived_messages
from relevo.work.store.tables import labels, live, messages, routings, stream_jobs
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.streams.stream_jobs import job_id_of
from relevo.work.tenancy.queues import Queues

log = logging.getLogger("relevo.work.routing")

MOVABLE = ("pending", "delayed", "dead", "expired")
"""Whoever claimed a message, or decides over it, has it; what is completed stays what it is, and a successor goes on."""
_OVER = ("completed", "failed", "cancelled")
_TRIES = 5
_MOST_TRIES = 20


class _Changed(Exception):
    """The message was changed after its journey had been worked out."""


class Router:
    """Asks the rules after the fact."""

    def __init__(
        self,
        transactions: Transactions,
        database: Database,
        queues: Queues,
        rules: Rules,
        route_planner: RoutePlanner,
        route_writer: RouteWriter,
        mint: IdMint,
        now_ms: Clock,
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._rules = rules
        self._route_planner = route_planner
        self._route_writer = route_writer
        self._mint = mint
        self._now_ms = now_ms
        self._caller = Caller.system("message_router")

    # --- noting ----------------------------------------------------------------------------------------------------------

    async def note(
        self, transaction: SqlUnitOfWork, rows: Iterable[OutboxRow], queues: Mapping[int, QueueRecord]
    ) -> None:
        """Keeps what rules wait for, in the transaction that lets these rows go."""
        wanted = {
            queue_id: triggers
            for queue_id, queue in queues.items()
            if not queue.system
            and (triggers := (await self._rules.of(queue.scope_id)).by_trigger.keys() & set(TRIGGER_OF.values()))
        }
        if not wanted:  # as in most scopes: nothing is asked of each event
            return
        tasks = [
            {
                "scope_id": queues[event.queue_id].scope_id,
                "queue_id": event.queue_id,
                "message_id": event.id,
                "trigger_on": trigger,
                "due_at": transaction.now,
                "tries": 0,
            }
            for row in rows
            for event in row.events
            if (trigger := TRIGGER_OF.get(event.event)) is not None and trigger in wanted.get(event.queue_id, ())
        ]
        if tasks:
            await transaction.connection.execute(insert(routings), tasks)

    # --- asking ----------------------------------------------------------------------------------------------------------

    async def advance(self, limit: int) -> int:
        """Asks the rules about what is due, oldest first; about how much."""
        now = self._now_ms()
        due = select(routings).where(routings.c.due_at <= now).order_by(routings.c.id).limit(limit)
        async with self._database.connect() as connection:
            tasks = (await connection.execute(due)).mappings().all()
        for task in tasks:
            try:
                await self._handle(task)
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - one message that cannot be routed must not keep the others
                await self._put_off(task, error)
        return len(tasks)

    async def _handle(self, task: Any) -> None:
        for _ in range(_TRIES):
            found = await self._message(task["message_id"])
            try:
                home = await self._queues.by_id(task["queue_id"])
            except NotFound:
                found = None
            if found is None:
                await self._transactions.run(lambda each: self._finish(each, task))
                return
            row, in_archive = found
            journey = await self._route_planner.of(home, draft_of_row(row), task["trigger_on"])  # pyright: ignore[reportPossiblyUnboundVariable]
            fault("route.decided")
            try:
                await self._transactions.run(
                    lambda each, a=row, b=journey, c=in_archive: self._apply(each, task, a, b, c)
                )
            except _Changed:
                continue
            await self._route_planner.told([journey])
            return
        raise StoreUnavailable(reason=f"message {task['message_id']} changed again and again while rules were asked")

    async def _message(self, message_id: str) -> tuple[Any, bool] | None:
        async with self._database.connect() as connection:
            for table in (live, archived_messages):
                query = select(table).where(table.c.id == message_id)
                row = (await connection.execute(query)).mappings().one_or_none()
                if row is not None:
                    return row, table is archived_messages
        return None

    async def _put_off(self, task: Any, error: Exception) -> None:
        tries = task["tries"] + 1
        log.error("message %s could not be routed (try %d)", task["message_id"], tries, exc_info=error)
        mine = routings.c.id == task["id"]
        if tries >= _MOST_TRIES:
            await self._transactions.run(lambda each: self._finish(each, task))
            body = {"message_id": task["message_id"], "trigger": task["trigger_on"], "error": str(error)[:500]}
            await self._rules.find(task["scope_id"], "routing_failed", body)
            return
        due_at = self._now_ms() + 1000 * min(2**tries, 300)
        async with self._database.begin() as connection:
            await connection.execute(update(routings).where(mine).values(tries=tries, due_at=due_at))

    @staticmethod
    async def _finish(transaction: SqlUnitOfWork, task: Any) -> bool:
        """Whether it was still to be done."""
        gone = await transaction.connection.execute(delete(routings).where(routings.c.id == task["id"]))
        return gone.rowcount == 1

    # --- doing -----------------------------------------------------------------------------------------------------------

    async def _apply(
        self, transaction: SqlUnitOfWork, task: Any, row: Any, journey: RoutePlan, in_archive: bool
    ) -> None:
        if not await self._finish(transaction, task) or journey.plain:
            return
        main = journey.main
        copies = list(journey.copies)
        if not in_archive:
            held = next(iter(await transaction.lock_rows(messages.c.id == row["id"])), None)
            if held is None or any(held[name] != row[name] for name in ("updated_at", "state", "queue_id")):
                raise _Changed
        movable = not in_archive and row["state"] in MOVABLE and journey.home.consumer_mode == "competing"
        if movable:
            await self._shape(transaction, row, main)
        elif main.moves:
            copies.append(self._successor(row, main))
        elif main.ending == "archived" and row["state"] in _OVER and not in_archive:
            await archive.move(transaction, row["id"], row["id"])
        await self._route_writer.insert(transaction, self._caller, copies)
        fault("route.written")

    def _successor(self, row: Any, main: Destination) -> Destination:
        """The message that goes on in the place of one that is over, or in somebody's hands."""
        now = self._now_ms()
        draft = msgspec.structs.replace(
            main.draft,
            id=self._mint(),
            parent_id=row["id"],
            causation_id=row["id"],
            source_type="rule",
            source_id=main.rule,
            idempotency_key=None,
            body_digest=None,
            attempts=0,
            reclaims=0,
            replays=0,
            visible_at=None,
            created_at=now,
            expires_at=None if (main.draft.expires_at or 0) <= now else main.draft.expires_at,
        )
        return msgspec.structs.replace(main, draft=draft, copied_from=row["id"])

    async def _shape(self, transaction: SqlUnitOfWork, row: Any, main: Destination) -> None:
        """Gives a message's row what its journey decided."""
        if main.ending == "waits" and not main.moves and not main.changed:
            return
        now, m = transaction.now, messages.c
        source = "message"
        stays = not main.moves and main.ending == "waits"
        if not stays:
            main.draft = _begun_anew(main.draft, now)
        values = self._route_writer.shaped(main, now)
        if stays and row["state"] in ("dead", "expired"):  # shaped, and still over
            values = {name: value for name, value in values.items() if name in _FIELDS}
        elif not main.moves and main.ending == "review" and row["state"] == "dead":
            try:
                require_replays_left(row["id"], row["replays"])
            except ReplayLoop as error:
                log.warning("%s", error)
                return
            values |= {name: row[name] for name in ("queue_id", "failure_reason", "error")}
            source = "dead_letter"
        elif main.moves or main.ending in ("stream", "archived", "dropped"):
            values |= {"attempts": 0, "reclaims": 0, "origin_queue_id": _came_from(main)}
        elif row["state"] in ("pending", "delayed"):
            values |= {name: row[name] for name in ("failure_reason", "error")}
        values["trail"] = m.trail + self._route_writer.lines(main, now, self._caller.actor)
        await transaction.connection.execute(update(messages).where(m.id == row["id"]).values(values))
        transaction.note_due(row["id"], values)
        transaction.altered.append(row["id"])
        await self._relabel(transaction, row, main)
        state = state_of(main, now) if "standing" in values else row["state"]
        place_id = values.get("queue_id", row["queue_id"])
        transaction.counters.moved(row["queue_id"], row["state"], None)
        transaction.counters.moved(place_id, None, state)
        if main.ending in ("archived", "dropped"):
            transaction.counters.add(place_id, "completed" if main.ending == "archived" else "cancelled", 1)
        if row["state"] == "pending":
            await transaction.session.leave_ready([(row["queue_id"], row["sort_key"], row["id"])])
        if state == "pending":
            self._route_writer.wait(transaction, main)
        self._route_writer.tell(transaction, self._caller, main)
        await self._attach(transaction, main, source)
        await self._route_writer.fan_out(transaction, [main])
        if main.ending == "archived":
            await archive.move(transaction, row["id"], row["id"])

    async def _attach(self, transaction: SqlUnitOfWork, main: Destination, source: str) -> None:
        """A message that is sent on is no longer the job that it may have been; one that becomes a job again, is a new one."""
        if not main.moves:
            await self._route_writer.attach(transaction, [main], source)
            return
        mine = stream_jobs.c.message_id == main.draft.id
        sends = (await transaction.connection.execute(select(stream_jobs.c.sends).where(mine))).scalar()
        await transaction.connection.execute(delete(stream_jobs).where(mine))
        await self._route_writer.attach(transaction, [main], source)
        if sends is not None and main.stream is not None:
            again = {"sends": sends + 1, "job_id": job_id_of(main.draft.id, sends + 1)}
            await transaction.connection.execute(update(stream_jobs).where(mine).values(again))

    async def _relabel(self, transaction: SqlUnitOfWork, row: Any, main: Destination) -> None:
        before: dict[str, str] = msgspec.json.decode(row["labels"])
        if before == main.draft.labels and row["scope_id"] == main.queue.scope_id:
            return
        await transaction.connection.execute(delete(labels).where(labels.c.message_id == row["id"]))
        new = [
            {"scope_id": main.queue.scope_id, "name": name, "value": value, "message_id": row["id"]}
            for name, value in main.draft.labels.items()
        ]
        if new:
            await transaction.connection.execute(insert(labels), new)


_FIELDS = (
    *("message_type", "priority_tier", "priority_score", "labels", "body", "body_digest", "deadline_at"),
    *("expires_at", "updated_at"),
)


def _begun_anew(draft: Draft, now: int) -> Draft:
    """For its next place: visible at once; a ttl that ran out begins again, and a deadline that has passed is dropped."""
    expires, deadline = draft.expires_at, draft.deadline
    if expires is not None and expires <= now:
        expires = now + max(1, expires - draft.created_at)
    if deadline is not None and deadline <= now:
        deadline = None
    return msgspec.structs.replace(draft, visible_at=None, expires_at=expires, deadline=deadline)


def _came_from(main: Destination) -> int | None:
    if main.moves and main.moves[-1].source.id != main.queue.id:
        return main.moves[-1].source.id
    return None


def hops_of(trail: str) -> int:
    """How often rules have sent a message on, by its history.

    >>> hops_of('[1,"published","cli",null],[2,"routed","rule:late","hop 3: late, a -> b"],')
    3
    """
    if '"hop ' not in trail:
        return 0
    told = [step.detail or "" for step in steps(trail) if step.event == "routed"]
    return int(told[-1].split(":")[0].removeprefix("hop ")) if told else 0


def draft_of_row(row: Any) -> Draft:
    """A message as rules see it, from its row."""
    return Draft(
        id=row["id"],
        message_type=row["message_type"],
        priority_tier=TIERS[int(row["priority_tier"])],
        priority_score=row["priority_score"],
        labels=msgspec.json.decode(row["labels"]),
        body=(row["body"] or "null").encode(),
        content_type=row["content_type"],
        deadline=row["deadline_at"],
        expires_at=row["expires_at"],
        correlation_id=row["correlation_id"],
        causation_id=row["causation_id"],
        parent_id=row["parent_id"],
        source_type=row["source_type"],
        source_id=row["source_id"],
        idempotency_key=row["idempotency_key"],
        body_digest=row["body_digest"],
        state=row["state"],
        attempts=row["attempts"],
        reclaims=row["reclaims"],
        replays=row["replays"],
        failure_reason=row["failure_reason"],
        error=failure_of(row["error"], stack=False),
        result=None if row["result"] is None else row["result"].encode(),
        visible_at=row["visible_at"],
        created_at=row["created_at"],
        hops=hops_of(row["trail"]),
    )
