"""Parts of one message's result, sent while it is worked on: long generations that somebody wants to read as they come.

Parts are numbered from 1 without a gap and belong to the claim that sends them: who claims the message anew begins anew, and
the parts of the lost claim go. With the final part the whole is made and kept as number 0, under the claim's token; a message
that this claim completes without a result gets it (see complete.sql). Another claim's whole can never become the result.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import and_, delete, insert, select

from relevo.contract.chunks import MOST_PARTS, Chunk, Chunks
from relevo.errors import BodyTooLarge, ChunkConflict, ClaimLost, InvalidInput, NotFound, WrongConsumerMode
from relevo.work.caller import Caller
from relevo.work.consume.long_poll import CancelToken, LongPoll, Wake
from relevo.work.message.model import TERMINAL
from relevo.work.store.database import Database
from relevo.work.store.tables import archive, chunks, live, messages
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import Queues

MOST_IN_A_PAGE = 500
LONGEST_WAIT_S = 60.0
_WHOLE = 0
_EVERYONE = 1_000_000


class ChunkStreams:
    """The parts of an installation's messages."""

    def __init__(
        self, transactions: Transactions, database: Database, queues: Queues, long_poll: LongPoll, max_body_bytes: int
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._long_poll = long_poll
        self._max_body_bytes = max_body_bytes

    async def append(
        self,
        caller: Caller,
        scope: str,
        message_id: str,
        claim_token: str,
        body: msgspec.Raw,
        *,
        number: int | None = None,
        final: bool = False,
    ) -> Chunk:
        """Adds a part, by whoever holds the claim. With a `number` the same part may be sent again after a lost answer; without
        one it is the next. `ClaimLost`, `ChunkConflict` (another body under this number, or after the final part)."""
        caller.require("consume")
        if not len(body):
            raise InvalidInput(where="body", reason="it is empty; send any JSON value")
        if number is not None and not 1 <= number <= MOST_PARTS:
            raise InvalidInput(where="number", reason=f"{number} is not between 1 and {MOST_PARTS}")
        home = await self._queues.scope_of(caller, scope)

        async def add(transaction: SqlUnitOfWork) -> Chunk:
            await self._require_claim(transaction, caller, home.scope_id, message_id, claim_token)
            last = await _last(transaction, message_id)
            if last is not None and last["claim_token"] != claim_token:
                await transaction.connection.execute(delete(chunks).where(chunks.c.message_id == message_id))
                last = None
            return await self._add(
                transaction, caller, home.scope_id, message_id, claim_token, body, number, final, last
            )

        added = await self._transactions.run(add)
        self._long_poll.wake({_waiting_place(message_id): Wake(_EVERYONE)})
        return added

    async def read(
        self,
        caller: Caller,
        scope: str,
        message_id: str,
        *,
        after: int = 0,
        stream: str | None = None,
        wait_s: float = 0.0,
        limit: int = MOST_IN_A_PAGE,
        patience: CancelToken | None = None,
    ) -> Chunks:
        """The parts after number `after`, at once if there are any, else as soon as one comes (at most after `wait_s`). With
        `stream`, as an earlier answer gave it, parts of a newer claim are read from their beginning."""
        caller.require("view")
        patience = patience or CancelToken()
        until = time.monotonic() + min(wait_s, LONGEST_WAIT_S)
        with self._long_poll.waiter(_waiting_place(message_id)) as waiter:
            patience.waiter = waiter
            while True:
                found = await self._read(caller, scope, message_id, after, stream, limit)
                left = until - time.monotonic()
                if found.chunks or found.complete or found.state in TERMINAL or left <= 0 or patience.ended:
                    return found
                await waiter.wait(left)

    # --- in the transaction ----------------------------------------------------------------------------------------------

    async def _require_claim(
        self, transaction: SqlUnitOfWork, caller: Caller, scope_id: int, message_id: str, claim_token: str
    ) -> None:
        leases = await transaction.session.leases([claim_token])
        claim_no = leases[0].claims.get(message_id) if leases else None
        row = next(iter(await transaction.lock_messages(messages.c.id == message_id)), None)
        if row is None or row.scope_id != scope_id:
            raise NotFound(what="message", name=message_id)
        queue = await self._queues.by_id(row.queue_id)
        if not caller.sees_queue(queue.slug):
            raise NotFound(what="message", name=message_id)
        if queue.consumer_mode == "broadcast":
            remedy = "its subscriptions have results of their own; send parts with messages of competing queues"
            raise WrongConsumerMode(queue=queue.slug, mode="broadcast", remedy=remedy)
        if row.state != "claimed" or row.claim_no != claim_no:
            reason = "somebody else holds it" if row.state == "claimed" else f"it is {row.state}"
            raise ClaimLost(message_id=message_id, reason=reason)

    async def _add(
        self,
        transaction: SqlUnitOfWork,
        caller: Caller,
        scope_id: int,
        message_id: str,
        token: str,
        body: msgspec.Raw,
        number: int | None,
        final: bool,
        last: Any,
    ) -> Chunk:
        text = bytes(body).decode()
        next_number = 1 if last is None else last["number"] + 1
        if number is not None and number < next_number:
            return await _repeated(transaction, message_id, number, text, final)
        if number is not None and number > next_number:
            raise InvalidInput(where="number", reason=f"{number} leaves a gap; the next part is {next_number}")
        if last is not None and last["final"]:
            raise ChunkConflict(message_id=message_id, number=next_number, reason="the final part has come already")
        total = len(body) + (0 if last is None else last["total"])
        limit = self._max_body_bytes
        if total > limit or next_number > MOST_PARTS:
            raise BodyTooLarge(what="whole of the parts", size=total, limit=limit, option="max_message_bytes")
        row = {
            "message_id": message_id,
            "number": next_number,
            "claim_token": token,
            "body": text,
            "total": total,
            "final": int(final),
            "created_at": transaction.now,
        }
        await transaction.connection.execute(insert(chunks).values(row))
        if final:
            whole = await _assembled(transaction, message_id)
            await transaction.connection.execute(insert(chunks).values({**row, "number": _WHOLE, "body": whole}))
            transaction.audit(
                caller, "message.chunks", message_id, scope_id=scope_id, after=f'{{"parts":{next_number}}}'
            )
        return _chunk(row)

    # --- reading ---------------------------------------------------------------------------------------------------------

    async def _read(
        self, caller: Caller, scope: str, message_id: str, after: int, stream: str | None, limit: int
    ) -> Chunks:
        scope_id = (await self._queues.scope_of(caller, scope)).scope_id
        async with self._database.connect() as connection:
            row: Any = None
            for table in (live, archive, live):  # it may move between two looks
                query = select(table.c.state, table.c.queue_id, table.c.origin_queue_id).where(
                    table.c.id == message_id, table.c.scope_id == scope_id
                )
                row = (await connection.execute(query)).one_or_none()
                if row is not None:
                    break
            first = await connection.execute(
                select(chunks.c.claim_token).where(chunks.c.message_id == message_id, chunks.c.number == 1)
            )
            token: str | None = first.scalar_one_or_none()
            known = None if token is None else _stream(token)
            start = after if stream is None or stream == known else 0
            mine = and_(chunks.c.message_id == message_id, chunks.c.number > start, chunks.c.claim_token == token)
            query = select(chunks).where(mine).order_by(chunks.c.number).limit(limit)
            parts: Sequence[Any] = () if token is None else (await connection.execute(query)).mappings().all()
            whole = select(chunks.c.number).where(chunks.c.message_id == message_id, chunks.c.number == _WHOLE)
            over = not parts and (await connection.execute(whole)).first() is not None
        if row is None:
            raise NotFound(what="message", name=message_id)
        if caller.queues is not None:
            await self._require_sight(caller, message_id, [row.queue_id, row.origin_queue_id])
        found = [_chunk(part) for part in parts]
        complete = over or (bool(found) and found[-1].final)
        return Chunks(stream=known, state=row.state, complete=complete, chunks=found)

    async def _require_sight(self, caller: Caller, message_id: str, queue_ids: Sequence[int | None]) -> None:
        for queue_id in queue_ids:
            if queue_id is not None and caller.sees_queue((await self._queues.by_id(queue_id)).slug):
                return
        raise NotFound(what="message", name=message_id)


async def _last(transaction: SqlUnitOfWork, message_id: str) -> Any:
    mine = chunks.c.message_id == message_id
    query = select(chunks).where(mine, chunks.c.number != _WHOLE).order_by(chunks.c.number.desc()).limit(1)
    return (await transaction.connection.execute(query)).mappings().one_or_none()


async def _repeated(transaction: SqlUnitOfWork, message_id: str, number: int, body: str, final: bool) -> Chunk:
    query = select(chunks).where(chunks.c.message_id == message_id, chunks.c.number == number)
    known = (await transaction.connection.execute(query)).mappings().one()
    if known["body"] != body or bool(known["final"]) != final:
        raise ChunkConflict(message_id=message_id, number=number, reason="it was sent with another body")
    return _chunk(known)


async def _assembled(transaction: SqlUnitOfWork, message_id: str) -> str:
    """Texts are joined to one; parts of any other kind become a list."""
    query = select(chunks.c.body).where(chunks.c.message_id == message_id).order_by(chunks.c.number)
    parts = [text for (text,) in await transaction.connection.execute(query)]
    try:
        return msgspec.json.encode("".join(msgspec.json.decode(part, type=str) for part in parts)).decode()
    except msgspec.ValidationError:
        return f"[{','.join(parts)}]"


def _chunk(row: Any) -> Chunk:
    return Chunk(
        number=row["number"], body=msgspec.Raw(row["body"]), final=bool(row["final"]), created_at=row["created_at"]
    )


def _stream(token: str) -> str:
    """A name for a claim that gives nobody the right to settle it."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


def _waiting_place(message_id: str) -> int:
    """Where readers of a message's parts wait, among the queues that claims wait for: below zero, where no queue is."""
    return -1 - int.from_bytes(hashlib.sha256(message_id.encode()).digest()[:6])
