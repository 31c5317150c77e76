"""Replays: dead letters go back to the queues they came from, filtered and throttled, as a job with a handle.

A replay is a row: what was asked, how far it is, how many were moved and skipped. The agent `replay_runner` carries it out in
batches; each batch and the cursor behind it are one transaction, so a replay that is killed goes on where it was and moves
nothing twice. Its end is fixed at its beginning (letters that died later are not part of it), so it always ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import and_, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.dead_letters import Replay
from relevo.contract.pages import Page
from relevo.errors import InvalidInput, NotFound, WrongState
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.dead_letters.listing import DeadLetterFilter, matching
from relevo.work.dead_letters.revival import revive
from relevo.work.faults import fault
from relevo.work.pagination import Listing
from relevo.work.queue_record import QueueRecord
from relevo.work.store.database import Database
from relevo.work.store.subjects import LABEL, digest_of
from relevo.work.store.tables import messages, queues, replays
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import DEAD_LETTER, Queues

MAX_REPLAYS = 5
"""How often one message is replayed before it is left where it is: a loop that nobody watches must end."""
_LISTING = Listing("replays", newest_first=True, id=replays.c.id)


class ReplayFilter(DeadLetterFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters a replay means, and its loop guard."""

    max_replays: int = MAX_REPLAYS


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a row keeps of the request: the filter, the last dead letter that is part of it, and what its caller may see."""

    filter: ReplayFilter
    last: str
    queues: frozenset[str] | None


class Replays:
    """The replays of an installation."""

    def __init__(self, transactions: Transactions, database: Database, queues: Queues, mint: IdMint) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._mint = mint

    async def start(
        self,
        caller: Caller,
        scope: str,
        wanted: ReplayFilter | None = None,
        *,
        rate_per_s: int | None = None,
        dry_run: bool = False,
    ) -> Replay:
        """Begins a replay and returns its handle at once. With `dry_run` nothing is moved and nothing is kept: the answer says
        how many it would look at (`total`), and how many of them it would skip."""
        caller.require("manage")
        if rate_per_s is not None and not 1 <= rate_per_s <= 100_000:
            raise InvalidInput(
                where="rate_per_s", reason=f"{rate_per_s} is not between 1 and 100000; leave it out for no limit"
            )
        wanted = wanted or ReplayFilter()
        if not 1 <= wanted.max_replays <= 1_000:
            raise InvalidInput(where="max_replays", reason=f"{wanted.max_replays} is not between 1 and 1000")
        home = await self._queues.scope_of(caller, scope)

        async def begin(transaction: SqlUnitOfWork) -> Replay:
            m, now = messages.c, transaction.now
            conditions = await matching(transaction.connection, home, wanted, caller)
            counts = select(func.count(), func.max(m.id)).where(*conditions)
            total, last = (await transaction.connection.execute(counts)).one()
            tired = select(func.count()).select_from(messages).where(*conditions, m.replays >= wanted.max_replays)
            skipped = (await transaction.connection.execute(tired)).scalar_one() if dry_run else 0
            asked = _Asked(filter=wanted, last=last or "", queues=caller.queues)
            row: dict[str, Any] = {
                "id": self._mint(),
                "tenant_id": home.tenant_id,
                "scope_id": home.scope_id,
                "filter": msgspec.json.encode(asked).decode(),
                "rate_per_s": rate_per_s,
                "state": "running" if total and not dry_run else "done",
                "total": total,
                "done": 0,
                "skipped": skipped,
                "cursor": "",
                "error": None,
                "created_by": caller.actor,
                "created_at": now,
                "updated_at": now,
            }
            if not dry_run:
                await transaction.connection.execute(insert(replays).values(row))
                transaction.audit(
                    caller,
                    "replay.start",
                    row["id"],
                    tenant_id=home.tenant_id,
                    scope_id=home.scope_id,
                    queue_id=home.id,
                    after=_told(wanted, total),
                )
            return _replay(row, dry_run=dry_run)

        return await self._transactions.run(begin)

    async def get(self, caller: Caller, scope: str, replay_id: str) -> Replay:
        caller.require("view")
        home = await self._queues.scope_of(caller, scope)
        query = select(replays).where(replays.c.id == replay_id, replays.c.scope_id == home.scope_id)
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            raise NotFound(what="replay", name=replay_id)
        return _replay(row)

    async def list(self, caller: Caller, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Replay]:
        """The replays of a scope, newest first."""
        caller.require("view")
        home = await self._queues.scope_of(caller, scope)
        query = select(replays).where(replays.c.scope_id == home.scope_id)
        async with self._database.connect() as connection:
            return await _LISTING.page(connection, query, _replay, limit=limit, cursor=cursor)

    async def cancel(self, caller: Caller, scope: str, replay_id: str) -> Replay:
        """Stops a replay before its next batch; what was moved stays moved. A cancelled one may be cancelled again."""
        caller.require("manage")
        home = await self._queues.scope_of(caller, scope)

        async def stop(transaction: SqlUnitOfWork) -> Replay:
            mine = and_(replays.c.id == replay_id, replays.c.scope_id == home.scope_id)
            held = transaction.held(select(replays).where(mine), wait=True)
            row = (await transaction.connection.execute(held)).mappings().one_or_none()
            if row is None:
                raise NotFound(what="replay", name=replay_id)
            if row["state"] not in ("running", "cancelled"):
                raise WrongState(what="replay", name=replay_id, state=row["state"], done="cancelled")
            if row["state"] == "running":
                change = {"state": "cancelled", "updated_at": transaction.now}
                await transaction.connection.execute(update(replays).where(mine).values(change))
                transaction.audit(
                    caller,
                    "replay.cancel",
                    replay_id,
                    tenant_id=home.tenant_id,
                    scope_id=home.scope_id,
                    queue_id=home.id,
                )
                row = dict(row) | change
            return _replay(row)

        return await self._transactions.run(stop)

    # --- for the agent -------------------------------------------------------------------------------------------------------

    async def running(self) -> Sequence[tuple[str, int | None]]:
        """Ids and rates of the replays under way, oldest first."""
        query = select(replays.c.id, replays.c.rate_per_s).where(replays.c.state == "running").order_by(replays.c.id)
        async with self._database.connect() as connection:
            return [(row.id, row.rate_per_s) for row in await connection.execute(query)]

    async def advance(self, caller: Caller, replay_id: str, limit: int) -> int:
        """Looks at the next `limit` dead letters of a replay and moves those that may go; returns at how many it looked."""
        return await self._transactions.run(lambda each: self._advance(each, caller, replay_id, limit))

    async def fail(self, replay_id: str, error: str) -> None:
        """Ends a replay that cannot go on."""

        async def give_up(transaction: SqlUnitOfWork) -> None:
            ended = {"state": "failed", "error": error[:2000], "updated_at": transaction.now}
            mine = and_(replays.c.id == replay_id, replays.c.state == "running")
            await transaction.connection.execute(update(replays).where(mine).values(ended))

        await self._transactions.run(give_up)

    async def _advance(self, transaction: SqlUnitOfWork, caller: Caller, replay_id: str, limit: int) -> int:
        connection, m = transaction.connection, messages.c
        # Held first: two runners at once take turns at it, and each sees the cursor of the other.
        mine = select(replays).where(replays.c.id == replay_id, replays.c.state == "running")
        row = (await connection.execute(transaction.held(mine, wait=True))).mappings().one_or_none()
        if row is None:
            return 0
        asked = msgspec.json.decode(row["filter"], type=_Asked)
        home = await self._home(transaction, row["scope_id"])
        seen = Caller(
            tenant_id=home.tenant_id,
            actor=row["created_by"],
            permissions=caller.permissions,
            request_id=caller.request_id,
            queues=asked.queues,
        )
        conditions = await matching(connection, home, asked.filter, seen)
        page = (*conditions, m.id > row["cursor"], m.id <= asked.last)
        letters = await transaction.lock_rows(*page, limit=limit)
        moved, by_origin = 0, defaultdict[int | None, list[Any]](list)
        for letter in letters:
            if letter["replays"] < asked.filter.max_replays:
                by_origin[letter["origin_queue_id"]].append(letter)
        for origin_id, own in sorted(by_origin.items(), key=lambda each: each[0] or 0):
            origin = await self._open_origin(origin_id)
            if origin is not None:
                moved += await revive(transaction, origin, own, seen, replay_id)
        fault("replay.moved")
        over = len(letters) < limit
        progress: dict[str, Any] = {
            "done": replays.c.done + moved,
            "skipped": replays.c.skipped + len(letters) - moved,
            "updated_at": transaction.now,
            "state": "done" if over else "running",
        }
        if letters:
            progress["cursor"] = letters[-1]["id"]
            transaction.audit(
                seen,
                "replay.batch",
                replay_id,
                tenant_id=home.tenant_id,
                scope_id=home.scope_id,
                queue_id=home.id,
                after=msgspec.json.encode({"ids": [each["id"] for each in letters], "moved": moved}).decode(),
            )
        await connection.execute(update(replays).where(replays.c.id == replay_id).values(progress))
        return len(letters)

    async def _open_origin(self, queue_id: int | None) -> QueueRecord | None:
        """The queue that letters came from, if it takes messages: paused it does, they wait there."""
        if queue_id is None:
            return None
        try:
            queue = await self._queues.by_id(queue_id)
        except NotFound:
            return None
        return queue if queue.state in ("active", "paused") and queue.scope_state in ("active", "paused") else None

    async def _home(self, transaction: SqlUnitOfWork, scope_id: int) -> QueueRecord:
        wanted = select(queues.c.id).where(queues.c.scope_id == scope_id, queues.c.slug == DEAD_LETTER)
        return await self._queues.by_id((await transaction.connection.execute(wanted)).scalar_one())


def _replay(row: Any, *, dry_run: bool = False) -> Replay:
    asked = msgspec.json.decode(row["filter"], type=_Asked)
    return Replay(
        id=row["id"],
        state=row["state"],
        filter=msgspec.Raw(msgspec.json.encode(asked.filter)),
        rate_per_s=row["rate_per_s"],
        dry_run=dry_run,
        total=row["total"],
        done=row["done"],
        skipped=row["skipped"],
        error=row["error"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _told(wanted: ReplayFilter, total: int) -> str:
    """What the audit says of a replay. Not the words that were looked for: they may be somebody's, and the audit keeps
    everything for good."""
    named = ("queue", "message_type", "correlation_id", "since", "until", "max_replays")
    said: dict[str, Any] = {name: getattr(wanted, name) for name in named if getattr(wanted, name) is not None}
    words = [name for name in ("reason", "labels", "text") if getattr(wanted, name)]
    return msgspec.json.encode({"total": total, **said, "words_in": words}).decode()


async def forget_words(connection: AsyncConnection, scope_id: int, subject_digest: str) -> None:
    """Takes out of the replays that are over what they looked for: texts, and the label of a subject that was erased."""
    over = select(replays.c.id, replays.c.filter).where(replays.c.scope_id == scope_id, replays.c.state != "running")
    for row in (await connection.execute(over)).all():
        asked = msgspec.json.decode(row.filter, type=_Asked)
        others = {
            name: value
            for name, value in asked.filter.labels.items()
            if name != LABEL or digest_of(value) != subject_digest
        }
        plain = msgspec.structs.replace(asked.filter, labels=others, text=None, reason=None)
        if plain != asked.filter:
            kept = msgspec.json.encode(msgspec.structs.replace(asked, filter=plain)).decode()
            await connection.execute(update(replays).where(replays.c.id == row.id).values(filter=kept))
