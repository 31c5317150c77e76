"""Reviews as rows: opened beside a message, worked on by people, ended by them or by the clock.

A change reads the case, lets it decide (review/case.py), and writes it over the version that was read: of two people who act at
the same moment one is told so. What follows from a decision happens in the same transaction (review/outcomes.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from sqlalchemy import ColumnElement, Select, and_, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract import reviews as contract
from relevo.contract.fields import about
from relevo.contract.pages import Page
from relevo.contract.reviews import CaseState, Source
from relevo.errors import NotFound, ReviewChanged, WrongState
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.message.failure import failure_of
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import REVIEW
from relevo.work.pagination import Listing, cursor_at
from relevo.work.queue_record import QueueRecord
from relevo.work.review.case import Case
from relevo.work.review.outcomes import Origin, follow, require_replays_left
from relevo.work.review.patterns import Patterns
from relevo.work.review.spec import ReviewSpec, Section
from relevo.work.schemas.registry import Schemas
from relevo.work.store.database import Database
from relevo.work.store.interface import LockedMessage
from relevo.work.store.tables import messages, queues, reviews, scopes
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import Queues, require_scope

_TRIES = 5


class Review(contract.Review, frozen=True, kw_only=True):
    """A review as people see it."""

    spec: Annotated[ReviewSpec, about("What people are asked.")]


_LISTING = Listing("reviews", id=reviews.c.id)


class Reviews:
    """The reviews of an installation."""

    def __init__(
        self,
        transactions: Transactions,
        database: Database,
        queues: Queues,
        patterns: Patterns,
        schemas: Schemas,
        mint: IdMint,
        now_ms: Clock,
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._patterns = patterns
        self._schemas = schemas
        self._mint = mint
        self._now_ms = now_ms
        self._ended: dict[str, asyncio.Event] = {}

    # --- opening ---------------------------------------------------------------------------------------------------------

    def row(
        self,
        spec: ReviewSpec,
        *,
        tenant_id: int,
        scope_id: int,
        queue_id: int | None,
        message_id: str | None,
        source: Source,
        origin: Origin,
        correlation_id: str,
        now: int,
    ) -> dict[str, Any]:
        """The row of a new review, for the transaction that makes its message wait for it."""
        case = Case.open(self._mint(), spec, now)
        return {
            "id": case.id,
            "tenant_id": tenant_id,
            "scope_id": scope_id,
            "queue_id": queue_id,
            "message_id": message_id,
            "source": source,
            "origin": msgspec.json.encode(origin).decode(),
            "correlation_id": correlation_id,
            "title": spec.title[:500],
            "version": 1,
            "created_at": now,
            **_columns(case, now),
        }

    async def open(self, transaction: SqlUnitOfWork, row: dict[str, Any]) -> str:
        """Writes a row made by `row`."""
        await transaction.connection.execute(insert(reviews).values(row))
        return row["id"]

    async def open_for_dead_letter(
        self, caller: Caller, scope: str, message_id: str, given: bytes | msgspec.Raw = b""
    ) -> Review:
        """Has people look at a dead letter. `given` is a specification or the use of a pattern; none: why it died, its body,
        approve or reject, and the body may be corrected. `ReplayLoop` when it was sent back often enough."""
        caller.require("review")
        home = await self._queues.scope_of(caller, scope)

        async def open_it(transaction: SqlUnitOfWork) -> str:
            m = messages.c
            letters = await transaction.lock_rows(m.id == message_id, m.scope_id == home.scope_id)
            letter = next(iter(letters), None)
            origin = None if letter is None else await _origin_of(self._queues, letter["origin_queue_id"])
            if letter is None or (origin is not None and not caller.sees_queue(origin.slug)):
                raise NotFound(what="message", name=message_id)
            if letter["state"] != "dead":
                raise WrongState(
                    what="message", name=message_id, state=letter["state"], done="reviewed as a dead letter"
                )
            require_replays_left(message_id, letter["replays"])
            body = msgspec.json.decode(letter["body"] or "null")
            if len(given):
                reader = msgspec.structs.replace(caller, permissions=caller.permissions | {"view"}, queues=None)
                spec = await self._patterns.resolve(reader, scope, given, body)
            else:
                spec = usual_spec(letter, "?" if origin is None else origin.slug, body)
            row = self.row(
                spec,
                tenant_id=home.tenant_id,
                scope_id=home.scope_id,
                queue_id=letter["origin_queue_id"],
                message_id=message_id,
                source="dead_letter",
                correlation_id=letter["correlation_id"],
                origin=Origin(queue_id=letter["origin_queue_id"], replays=letter["replays"]),
                now=transaction.now,
            )
            change = Change(
                LockedMessage.of(letter),
                detail=row["id"],
                told={"review": row["id"]},
                columns={"finished_at": letter["finished_at"]},  # when it died
            )
            home_queue = origin or await self._queues.by_id(letter["queue_id"])
            await apply(transaction, REVIEW, home_queue, [change], caller)
            transaction.audit(
                caller,
                "review.open",
                row["id"],
                tenant_id=home.tenant_id,
                scope_id=home.scope_id,
                queue_id=letter["origin_queue_id"],
                correlation_id=letter["correlation_id"],
                after=msgspec.json.encode({"message_id": message_id}).decode(),
            )
            return await self.open(transaction, row)

        review_id = await self._transactions.run(open_it)
        reader = msgspec.structs.replace(caller, permissions=caller.permissions | {"view"})
        return await self.get(reader, scope, review_id)

    # --- reading ---------------------------------------------------------------------------------------------------------

    async def get(self, caller: Caller, scope: str, review_id: str) -> Review:
        caller.require("view", scope)
        async with self._database.connect() as connection:
            row = (await connection.execute(_mine(caller, scope, review_id))).mappings().one_or_none()
        if row is None or (row["queue"] is not None and not caller.sees_queue(row["queue"])):
            raise NotFound(what="review", name=review_id)
        return _review(row)

    async def inbox(
        self,
        caller: Caller,
        scope: str | None,
        *,
        state: CaseState | None = None,
        holder: str | None = None,
        person: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Review]:
        """Reviews, oldest first: those that wait or are held unless a state is named. Without a scope those of all that the
        caller sees. With `person`, only what that person may decide or holds."""
        caller.require("view")
        async with self._database.connect() as connection:
            wanted = ("waiting", "held") if state is None else (state,)
            query = _query().where(await self._within(connection, caller, scope), reviews.c.state.in_(wanted))
            if holder is not None:
                query = query.where(reviews.c.holder == holder)
            if caller.queues is not None:
                query = query.where(or_(queues.c.slug.in_(caller.queues), reviews.c.queue_id.is_(None)))
            found: list[Review] = []
            last = cursor
            while len(found) <= limit:  # whom a review is for stands in its document
                page = await _LISTING.page(connection, query, _review, limit=limit, cursor=last)
                found += [review for review in page.items if _is_for(review, person)]
                last = page.next_cursor
                if last is None:
                    break
        return Page(found[:limit], cursor_at(_LISTING.name, found[limit - 1].id) if len(found) > limit else None)

    async def _within(self, connection: AsyncConnection, caller: Caller, scope: str | None) -> ColumnElement[bool]:
        if scope is not None:
            caller.require_sight(scope)
            return reviews.c.scope_id == (await require_scope(connection, caller.tenant_id, scope))["id"]
        mine = scopes.c.tenant_id == caller.tenant_id
        return mine if caller.scopes is None else and_(mine, scopes.c.slug.in_(caller.scopes))

    async def result(self, caller: Caller, scope: str, review_id: str, *, wait_s: float = 0.0) -> Review:
        """The review, once it is over or the time is."""
        deadline = asyncio.get_running_loop().time() + min(wait_s, 60.0)
        while True:
            ended = self._ended.setdefault(review_id, asyncio.Event())
            review = await self.get(caller, scope, review_id)
            left = deadline - asyncio.get_running_loop().time()
            if review.finished_at is not None or left <= 0:
                self._ended.pop(review_id, None)
                return review
            try:
                async with asyncio.timeout(min(left, 1.0)):  # another process may end it: look now and then
                    await ended.wait()
            except TimeoutError:
                continue

    # --- what people do --------------------------------------------------------------------------------------------------

    async def claim(self, caller: Caller, scope: str, review_id: str, person: str) -> Review:
        return await self._change(caller, scope, review_id, "claim", person, lambda case, now: case.claim(person, now))

    async def release(self, caller: Caller, scope: str, review_id: str, person: str) -> Review:
        return await self._change(
            caller, scope, review_id, "release", person, lambda case, now: case.release(person, now)
        )

    async def hand_over(self, caller: Caller, scope: str, review_id: str, person: str, to: str) -> Review:
        return await self._change(
            caller, scope, review_id, "hand_over", person, lambda case, now: case.hand_over(person, to, now)
        )

    async def comment(self, caller: Caller, scope: str, review_id: str, person: str, text: str) -> Review:
        return await self._change(
            caller, scope, review_id, "comment", person, lambda case, now: case.comment(person, text, now)
        )

    async def decide(
        self,
        caller: Caller,
        scope: str,
        review_id: str,
        person: str,
        answer: dict[str, Any],
        *,
        corrected_body: Any = None,
    ) -> Review:
        def act(case: Case, now: int) -> None:
            case.decide(person, answer, now, corrected_body=corrected_body)

        return await self._change(caller, scope, review_id, "decide", person, act)

    async def withdraw(self, caller: Caller, scope: str, review_id: str, person: str, reason: str) -> Review:
        caller.require("manage")
        return await self._change(
            caller, scope, review_id, "withdraw", person, lambda case, now: case.withdraw(person, reason, now)
        )

    async def _change(
        self, caller: Caller, scope: str, review_id: str, verb: str, person: str, act: Callable[[Case, int], object]
    ) -> Review:
        caller.require("review", scope)
        for _ in range(_TRIES):
            changed = await self._transactions.run(
                lambda each: self._act(each, caller, scope, review_id, verb, person, act)
            )
            if changed is not None:
                break
        else:
            raise ReviewChanged(review=review_id)
        if changed.finished_at is not None:
            self._wake(review_id)
        return changed

    async def _act(
        self,
        transaction: SqlUnitOfWork,
        caller: Caller,
        scope: str,
        review_id: str,
        verb: str,
        person: str,
        act: Callable[[Case, int], object],
    ) -> Review | None:
        """One change; None when somebody else was quicker."""
        transaction.begun("review")
        row = (await transaction.connection.execute(_mine(caller, scope, review_id))).mappings().one_or_none()
        if row is None or (row["queue"] is not None and not caller.sees_queue(row["queue"])):
            raise NotFound(what="review", name=review_id)
        case = _case(row)
        before = case.state
        act(case, transaction.now)
        if not await self._written(transaction, row, case):
            return None
        transaction.audit(
            caller,
            f"review.{verb}",
            row["id"],
            tenant_id=row["tenant_id"],
            scope_id=row["scope_id"],
            queue_id=row["queue_id"],
            correlation_id=row["correlation_id"],
            before=msgspec.json.encode({"state": before}).decode(),
            after=msgspec.json.encode({"state": case.state, "person": person, "holder": case.holder}).decode(),
        )
        if case.over:
            await follow(self._queues, self._schemas, transaction, row, case, caller)
        return _review({**row, **_columns(case, transaction.now)})

    # --- what the clock does ---------------------------------------------------------------------------------------------

    async def tick(self, caller: Caller, limit: int = 100) -> int:
        """Lets time pass for the cases that are due; how many there were."""
        under_way = reviews.c.state.in_(
            ("waiting", "held")
        )  # of a stream queue's dead letters the bridge takes the rest
        due = select(reviews.c.id).where(reviews.c.next_tick_at <= self._now_ms(), under_way)
        async with self._database.connect() as connection:
            rows = await connection.execute(due.order_by(reviews.c.next_tick_at).limit(limit))
            ids = list(rows.scalars())
        for review_id in ids:
            await self._tick(caller, review_id)
        return len(ids)

    async def _tick(self, caller: Caller, review_id: str) -> None:
        async def pass_time(transaction: SqlUnitOfWork) -> bool:
            query = _query().where(reviews.c.id == review_id)
            row = (await transaction.connection.execute(query)).mappings().one_or_none()
            if row is None:
                return False
            case = _case(row)
            happened = case.tick(transaction.now)
            if happened == "nothing" or not await self._written(transaction, row, case):
                return False
            transaction.audit(
                caller,
                f"review.{happened}",
                review_id,
                tenant_id=row["tenant_id"],
                scope_id=row["scope_id"],
                queue_id=row["queue_id"],
                correlation_id=row["correlation_id"],
                after=msgspec.json.encode({"state": case.state, "assignees": case.assignees}).decode(),
            )
            if case.over:
                await follow(self._queues, self._schemas, transaction, row, case, caller)
            return case.over

        if await self._transactions.run(pass_time):
            self._wake(review_id)

    async def _written(self, transaction: SqlUnitOfWork, row: Any, case: Case) -> bool:
        mine = (reviews.c.id == row["id"]) & (reviews.c.version == row["version"])
        values = {**_columns(case, transaction.now), "version": row["version"] + 1}
        done = await transaction.connection.execute(update(reviews).where(mine).values(values))
        return done.rowcount == 1

    def _wake(self, review_id: str) -> None:
        ended = self._ended.pop(review_id, None)
        if ended is not None:
            ended.set()


# --- rows ----------------------------------------------------------------------------------------------------------------


def _query() -> Select[Any]:
    return (
        select(reviews, scopes.c.slug.label("scope"), queues.c.slug.label("queue"))
        .join_from(reviews, scopes, scopes.c.id == reviews.c.scope_id)
        .outerjoin(queues, queues.c.id == reviews.c.queue_id)
    )


def _mine(caller: Caller, scope: str, review_id: str) -> Select[Any]:
    return _query().where(reviews.c.id == review_id, reviews.c.tenant_id == caller.tenant_id, scopes.c.slug == scope)


def _columns(case: Case, now: int) -> dict[str, Any]:
    """What of the case stands in columns of its own, to be found by."""
    return {
        "state": case.state,
        "holder": case.holder,
        "next_tick_at": case.next_tick_at(),
        "finished_at": case.finished_at,
        "updated_at": now,
        "document": msgspec.json.encode(case).decode(),
    }


def _case(row: Any) -> Case:
    return msgspec.json.decode(row["document"], type=Case)


def _review(row: Any) -> Review:
    case = _case(row)
    return Review(
        id=row["id"],
        scope=row["scope"],
        queue=row["queue"],
        message_id=row["message_id"],
        source=row["source"],
        correlation_id=row["correlation_id"],
        title=row["title"],
        state=case.state,
        spec=case.spec,
        assignees=case.assignees,
        holder=case.holder,
        held_until=case.held_until,
        due_at=case.due_at,
        votes=case.votes,
        notes=case.notes,
        outcome=case.outcome,
        reason=case.reason,
        created_at=case.opened_at,
        finished_at=case.finished_at,
    )


async def _origin_of(queues: Queues, queue_id: int | None) -> QueueRecord | None:
    try:
        return None if queue_id is None else await queues.by_id(queue_id)
    except NotFound:
        return None


def usual_spec(letter: Any, queue: str, body: Any) -> ReviewSpec:
    """What people are asked about a dead letter when nobody said otherwise."""
    shown = msgspec.json.format(msgspec.json.encode(body)).decode()[:10_000]
    return ReviewSpec(
        title=f"Dead letter of {queue}: {letter['message_type']}"[:500],
        context=[Section("Why it died", _why(letter)), Section("Body", shown)],
        may_correct=True,
    )


def _why(letter: Any) -> str:
    failure = failure_of(letter["error"])
    reason = letter["failure_reason"] or "?"
    return (reason if failure is None or failure.stack is None else f"{reason}\n\n{failure.stack}")[:10_000]


def _is_for(review: Review, person: str | None) -> bool:
    return person is None or not review.assignees or person in review.assignees or review.holder == person
