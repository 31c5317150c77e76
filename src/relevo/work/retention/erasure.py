"""Erasure of a data subject: everything that messages labelled `subject=…` say goes, that they were there stays.

What goes: bodies, results, parts, failure details, review documents, webhook payloads, the label itself, digests of bodies; in
the live table, the archive and the dead letters, in the copies of their events in `_events`, and in Redis the jobs that they
became and the events that say why something failed. The audit never held any of it: it names ids, states and who did it.

Whatever was still to be done is cancelled: nobody can work on what is gone, and a claim's late result must not bring it back.
What stays: ids, times, states, the audit, and a digest of the subject, by which the same request is known again.

An erasure lists its messages first, in the transaction that makes it, and then goes through the list in batches, each one
transaction with the place it reached: who is killed goes on there. The list (`erased`) stays, for the lake.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Table, and_, bindparam, delete, func, insert, literal, select, update

from relevo.contract.erasures import Erasure
from relevo.contract.pages import Page
from relevo.contract.reviews import Note
from relevo.errors import InvalidInput, NotFound, RelevoError, StoreUnavailable
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.dead_letters.replays import forget_words
from relevo.work.faults import fault
from relevo.work.message.history import Step, history_line, steps
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.standing import with_claims
from relevo.work.message.transition import ERASE
from relevo.work.pagination import Listing
from relevo.work.queue_record import QueueRecord
from relevo.work.retention.erasure_streams import forget_in_streams
from relevo.work.review.case import Case
from relevo.work.review.spec import ReviewSpec
from relevo.work.store.database import BUSY_TIMEOUT_MS, Database, sqlite_path
from relevo.work.store.interface import LockedMessage
from relevo.work.store.kept_answers import forget_answers
from relevo.work.store.outbox import WorkEvent, decode, encode_each
from relevo.work.store.search_index import AT_ONCE, ids_having
from relevo.work.store.subjects import LABEL, digest_of
from relevo.work.store.tables import (
    archive,
    chunks,
    deliveries,
    erased,
    erasures,
    labels,
    messages,
    outbox,
    queues,
    reviews,
    webhook_deliveries,
)
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.streams.stream_queues import StreamQueues
from relevo.work.tenancy.queues import Queues, require_scope
from relevo.work.webhooks.deliveries import ERASED

BATCH = 200
NO_DIGEST = "0" * 64
"""In the place of the digest of what was published: nothing has it, so that the same idempotency key stays refused."""
_LISTING = Listing("erasures", newest_first=True, id=erasures.c.id)


class Erasures:
    """The erasures of an installation."""

    def __init__(
        self, transactions: Transactions, database: Database, queues: Queues, streams: StreamQueues, mint: IdMint
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._streams = streams
        self._mint = mint

    async def start(self, caller: Caller, scope: str, subject: str) -> Erasure:
        """Erases what a scope knows of a subject. Small ones are done when this returns; larger ones are carried on by the
        agent `erasure_runner`. Messages published later are not part of it."""
        caller.require("manage", scope)
        if caller.queues is not None:
            raise NotFound(what="scope", name=scope)  # a subject is in all queues, or the erasure would be half of one
        if not subject or len(subject) > 200 or "\0" in subject:
            raise InvalidInput(where="subject", reason="pass the value of the label `subject`, up to 200 characters")
        digest = digest_of(subject)

        async def begin(transaction: SqlUnitOfWork) -> dict[str, Any]:
            connection, now = transaction.connection, transaction.now
            owner = await require_scope(connection, caller.tenant_id, scope)
            row: dict[str, Any] = {
                "id": self._mint(now),
                "tenant_id": caller.tenant_id,
                "scope_id": owner["id"],
                "subject_digest": digest,
                "state": "running",
                "messages": 0,
                "reached": "",
                "created_by": caller.actor,
                "created_at": now,
                "finished_at": None,
            }
            about = select(literal(row["id"]), labels.c.message_id).where(
                labels.c.scope_id == owner["id"], labels.c.name == LABEL, labels.c.value == subject
            )
            await connection.execute(insert(erased).from_select(["erasure_id", "message_id"], about))
            counted = select(func.count()).select_from(erased).where(erased.c.erasure_id == row["id"])
            row["messages"] = (await connection.execute(counted)).scalar_one()
            if not row["messages"]:
                row |= {"state": "done", "finished_at": now}  # nothing to look for: not in files, not in Redis
            await connection.execute(insert(erasures).values(row))
            after = {"subject_digest": digest, "messages": row["messages"]}
            transaction.audit(
                caller, "erasure.start", row["id"], scope_id=owner["id"], after=msgspec.json.encode(after).decode()
            )
            return row

        row = await self._transactions.run(begin)
        if row["messages"]:
            with contextlib.suppress(RelevoError, TimeoutError, OSError):  # the agent goes on
                await self.advance(row["id"])
        return await self.get(caller, scope, row["id"])

    async def get(self, caller: Caller, scope: str, erasure_id: str) -> Erasure:
        caller.require("manage", scope)
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            query = select(erasures).where(erasures.c.id == erasure_id, erasures.c.scope_id == owner["id"])
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            raise NotFound(what="erasure", name=erasure_id)
        return _erasure(row)

    async def list(self, caller: Caller, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Erasure]:
        """The erasures of a scope, newest first."""
        caller.require("manage", scope)
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            query = select(erasures).where(erasures.c.scope_id == owner["id"])
            return await _LISTING.page(connection, query, _erasure, limit=limit, cursor=cursor)

    # --- carrying on -----------------------------------------------------------------------------------------------------

    async def running(self) -> Sequence[str]:
        query = select(erasures.c.id).where(erasures.c.state == "running").order_by(erasures.c.id)
        async with self._database.connect() as connection:
            return list((await connection.execute(query)).scalars())

    async def advance(self, erasure_id: str) -> int:
        """Erases the next batch; returns how many messages were in it. After the last one it is over, but not before Redis
        and the files hold nothing of it either."""
        count, over = await self._transactions.run(lambda each: self._advance(each, erasure_id))
        if over and await self._forgotten_in_streams(erasure_id):
            fault("erasure.forgotten")
            await self._scrub()
            await self._transactions.run(lambda each: self._finish(each, erasure_id))
        return count

    async def _advance(self, transaction: SqlUnitOfWork, erasure_id: str) -> tuple[int, bool]:
        connection = transaction.connection
        mine = select(erasures).where(erasures.c.id == erasure_id, erasures.c.state == "running")
        row = (await connection.execute(transaction.held(mine, wait=True))).mappings().one_or_none()
        if row is None:
            return 0, False
        listed = select(erased.c.message_id).where(
            erased.c.erasure_id == erasure_id, erased.c.message_id > row["reached"]
        )
        page = listed.order_by(erased.c.message_id).limit(BATCH)
        ids = list((await connection.execute(page)).scalars())
        if ids:
            await self._erase(transaction, row, ids)
            await forget_answers(connection, row["tenant_id"])
        fault("erasure.erased")
        over = len(ids) < BATCH
        if ids:
            await connection.execute(update(erasures).where(erasures.c.id == erasure_id).values(reached=ids[-1]))
        return len(ids), over

    async def _erase(self, transaction: SqlUnitOfWork, erasure: Any, ids: Sequence[str]) -> None:
        connection = transaction.connection
        every = [*ids, *await _event_copies(transaction, erasure["scope_id"], ids)]
        a = archive.c
        archived = select(archive).where(a.id.in_(every), a.scope_id == erasure["scope_id"]).order_by(a.id)
        for table in (messages, archive):
            rows: Sequence[Any]
            if table is messages:
                mine = (messages.c.id.in_(every), messages.c.scope_id == erasure["scope_id"])
                rows = await with_claims(connection, await transaction.lock_rows(*mine))
            else:
                rows = (await connection.execute(transaction.held(archived, wait=True))).mappings().all()
            if rows:
                changed = [_blank(row, transaction.now, erasure["created_by"]) for row in rows]
                await connection.execute(_BLANKING[table.name], changed)
                await self._cancel(transaction, rows, erasure)
        await connection.execute(delete(labels).where(labels.c.message_id.in_(every), labels.c.name == LABEL))
        await connection.execute(delete(chunks).where(chunks.c.message_id.in_(every)))
        await connection.execute(delete(deliveries).where(deliveries.c.message_id.in_(every)))
        await _blank_reviews(transaction, every, erasure["created_by"])
        told = webhook_deliveries.c
        await connection.execute(
            update(webhook_deliveries)
            .where(told.message_id.in_(every), told.state == "waiting")
            .values(state="failed", next_at=None)
        )
        blank = {"payload": ERASED, "last_error": None}
        await connection.execute(update(webhook_deliveries).where(told.message_id.in_(every)).values(blank))
        await _blank_outbox(transaction, set(every))

    async def _cancel(self, transaction: SqlUnitOfWork, rows: Sequence[Any], erasure: Any) -> None:
        """Whatever was still to be done."""
        by = msgspec.structs.replace(Caller.system("erasure_runner", erasure["tenant_id"]), actor=erasure["created_by"])
        changes: dict[QueueRecord, list[Change]] = {}
        for row in rows:
            if row["state"] in ERASE.before:
                message = LockedMessage.of(row)
                columns = {} if row["open_deliveries"] is None else {"open_deliveries": 0}
                change = Change(message, told={"reason": "erased"}, columns=columns | {"claim_token": None})
                changes.setdefault(await self._queues.home_of(message), []).append(change)
        for home, own in changes.items():
            await apply(transaction, ERASE, home, own, by)

    async def _forgotten_in_streams(self, erasure_id: str) -> bool:
        listed = select(erased.c.message_id, erasures.c.scope_id).join(erasures, erasures.c.id == erased.c.erasure_id)
        idle, reached = True, ""
        while True:
            page = listed.where(erasures.c.id == erasure_id, erased.c.message_id > reached)
            async with self._database.connect() as connection:
                rows = (await connection.execute(page.order_by(erased.c.message_id).limit(BATCH))).all()
            if not rows:
                return idle
            idle = (
                await forget_in_streams(
                    self._database, self._streams, self._queues, rows[0][1], [row[0] for row in rows]
                )
                and idle
            )
            reached = rows[-1][0]

    async def _finish(self, transaction: SqlUnitOfWork, erasure_id: str) -> None:
        mine = and_(erasures.c.id == erasure_id, erasures.c.state == "running")
        query = transaction.held(select(erasures).where(mine), wait=True)
        row = (await transaction.connection.execute(query)).mappings().one_or_none()
        if row is None:
            return  # two came at once
        await forget_words(transaction.connection, row["scope_id"], row["subject_digest"])
        ended = {"state": "done", "finished_at": transaction.now}
        await transaction.connection.execute(update(erasures).where(mine).values(ended))
        transaction.audit(
            Caller.system("erasure_runner"),
            "erasure.done",
            erasure_id,
            tenant_id=row["tenant_id"],
            scope_id=row["scope_id"],
            after=f'{{"messages":{row["messages"]}}}',
        )

    async def _scrub(self) -> None:
        """SQLite leaves what a row said in the free space of its pages (`secure_delete` forgets the pages it rebuilds) and in
        its log: the file is written anew, and the log emptied. The servers overwrite at their own time (VACUUM, purge)."""
        database = self._database
        if database.dialect == "sqlite":
            async with database.writing:
                await asyncio.to_thread(_write_anew, sqlite_path(database.url))


def _write_anew(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)) as connection:
        try:
            connection.execute("VACUUM")
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(reason=str(error)) from error
    if busy:
        raise StoreUnavailable(reason="somebody reads from it, so that its log cannot be emptied yet")


async def _blank_outbox(transaction: SqlUnitOfWork, ids: set[str]) -> None:
    """Events that wait to be relayed leave without the reasons."""
    connection, last = transaction.connection, 0
    while True:
        page = select(outbox.c.id, outbox.c.events).where(outbox.c.id > last).order_by(outbox.c.id).limit(BATCH)
        rows = (await connection.execute(transaction.held(page, wait=True))).all()
        if not rows:
            return
        for row in rows:
            events = decode(row.events)
            kept = [_without_reason(event) if event.id in ids else event for event in events]
            if kept != events:
                await connection.execute(update(outbox).where(outbox.c.id == row.id).values(events=encode_each(kept)))
        last = rows[-1].id


def _without_reason(event: WorkEvent) -> WorkEvent:
    extras = {name: value for name, value in (event.extras or {}).items() if name not in ("reason", "error_type")}
    return msgspec.structs.replace(event, extras=extras or None)


async def _event_copies(transaction: SqlUnitOfWork, scope_id: int, ids: Sequence[str]) -> list[str]:
    """The messages of `_events` that tell of these messages: their bodies may hold a reason."""
    connection = transaction.connection
    home = select(queues.c.id).where(queues.c.scope_id == scope_id, queues.c.slug == "_events").scalar_subquery()
    correlated: set[str] = set()
    for origin in (messages, archive):
        query = select(origin.c.correlation_id).where(origin.c.id.in_(ids), origin.c.scope_id == scope_id)
        correlated |= set((await connection.execute(query)).scalars())
    told = await ids_having(connection, [scope_id], "correlation_id", correlated)
    found: list[str] = []
    for at in range(0, len(told), AT_ONCE):
        for table in (messages, archive):
            of_these = (table.c.id.in_(told[at : at + AT_ONCE]), table.c.causation_id.in_(ids))
            copies = select(table.c.id).where(*of_these, table.c.scope_id == scope_id, table.c.queue_id == home)
            found += (await connection.execute(copies)).scalars()
    return found


def _blank(row: Any, now: int, actor: str) -> dict[str, Any]:
    """The new values of one message's row. What is to be cancelled has its line of history from that."""
    named: dict[str, str] = msgspec.json.decode(row["labels"])
    named.pop(LABEL, None)
    line = "" if row["state"] in ERASE.before else history_line(now, ERASE.history, actor)
    return {
        "b_id": row["id"],
        "labels": msgspec.json.encode(named).decode(),
        "trail": "".join(_plain(step) for step in steps(row["trail"])) + line,
        "updated_at": now,
    }


def _blanking(table: Table) -> Any:
    blank: dict[str, Any] = dict.fromkeys(("body", "result", "failure_reason", "error", "hitl_spec"))
    blank["body_digest"] = NO_DIGEST
    given: dict[str, Any] = {name: bindparam(name) for name in ("labels", "trail", "updated_at")}
    return update(table).where(table.c.id == bindparam("b_id")).values(blank | given)


_BLANKING = {table.name: _blanking(table) for table in (messages, archive)}


def _plain(step: Step) -> str:
    """A line of history without its detail: reasons are written by workers, who write what they like."""
    return history_line(step.at, step.event, step.actor)


async def _blank_reviews(transaction: SqlUnitOfWork, ids: Sequence[str], actor: str) -> None:
    query = select(reviews).where(reviews.c.message_id.in_(ids))
    rows = (await transaction.connection.execute(transaction.held(query, wait=True))).mappings().all()
    for row in rows:
        known = msgspec.json.decode(row["document"], type=Case)
        now = transaction.now
        case = Case(
            id=known.id,
            spec=ReviewSpec(title="Erased"),
            state=known.state if known.over else "withdrawn",
            opened_at=known.opened_at,
            assignees=[],
            votes=[],
            notes=[Note(now, actor, "erased")],
            reason="erased",
            finished_at=known.finished_at or now,
        )
        values = {
            "document": msgspec.json.encode(case).decode(),
            "title": "Erased",
            "state": case.state,
            "holder": None,
            "next_tick_at": None,
            "finished_at": case.finished_at,
            "version": row["version"] + 1,
            "updated_at": now,
        }
        await transaction.connection.execute(update(reviews).where(reviews.c.id == row["id"]).values(values))


def _erasure(row: Any) -> Erasure:
    return Erasure(**{name: row[name] for name in Erasure.__struct_fields__})
