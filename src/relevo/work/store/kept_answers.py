"""Requests that carry an `Idempotency-Key`: done once, however often they are sent, and answered alike each time.

The key is written in the transaction that does the work, so there is no moment at which the work is on disk and its key is
not: nothing is done twice. The answer is written right after it. Who dies between the two leaves a key without an answer; a
request with that key is then refused, and says that the work was done (`IdempotentAnswerLost`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.errors import IdempotencyKeyBusy, IdempotencyKeyReused, IdempotentAnswerLost, StoreUnavailable
from relevo.work.caller import Caller
from relevo.work.faults import fault
from relevo.work.store.database import Database
from relevo.work.store.tables import kept_answers

log = logging.getLogger("relevo.api")

KEPT_S = 86_400
"""How long an answer is given again. After that the key is as good as new."""
LOST_AFTER_S = 120
"""Whoever does the work has long answered by then, or is no more."""

PATIENCE_S = 10.0
"""How long a request waits for the answer of the one that was quicker, before it is told to come again."""
_LOOK_EVERY_S = 0.05


class Answer(NamedTuple):
    """What was answered: a status and the body."""

    status: int
    body: str


class _Taken(Exception):
    """The same key was committed by another request while this one was on its way."""


class KeptAnswers:
    """The answers of the last day, by tenant, API key and idempotency key: nobody is given another's answer."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms

    async def once(
        self, caller: Caller, key: str, fingerprint: str, act: Callable[[], Awaitable[Answer]]
    ) -> tuple[Answer, bool]:
        """The answer of `act`, and whether it is an earlier one. Two at the same time: one acts, the other waits for it.
        What `act` raises is not kept."""
        try:
            kept = await self._kept(caller, key, fingerprint)
        except IdempotencyKeyBusy:  # its work is on disk already, its answer is not
            kept = await self._awaited(caller, key, fingerprint)
        if kept is not None:
            return kept, True
        row = {**_name(caller, key), "fingerprint": fingerprint, "begun_at": self._now_ms()}

        async def note(connection: AsyncConnection) -> None:
            await connection.execute(delete(kept_answers).where(_mine(caller, key), self._is_over()))
            try:
                await connection.execute(insert(kept_answers).values(row))
            except IntegrityError as error:
                raise _Taken from error

        with self._database.first_writing(note) as first:
            try:
                answer = await act()
            except _Taken:
                return await self._awaited(caller, key, fingerprint), True
        fault("request.done")
        await self._keep(caller, key, row, answer, noted=first.committed)
        return answer, False

    async def forget_old(self) -> int:
        """Removes what nobody is given any more; returns how many."""
        async with self._database.connect() as connection:
            if (
                await connection.execute(select(kept_answers.c.tenant_id).where(self._is_over()).limit(1))
            ).first() is None:
                return 0
        async with self._database.begin() as connection:
            return (await connection.execute(delete(kept_answers).where(self._is_over()))).rowcount

    def _is_over(self) -> ColumnElement[bool]:
        return kept_answers.c.begun_at <= self._now_ms() - KEPT_S * 1000

    async def _kept(self, caller: Caller, key: str, fingerprint: str) -> Answer | None:
        """The answer of a request that was done; None when there was none. Refuses a key that belongs to another request, and
        one whose request has no answer yet."""
        query = select(kept_answers).where(_mine(caller, key), ~self._is_over())
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            return None
        if row["fingerprint"] != fingerprint:
            raise IdempotencyKeyReused(key=key)
        if row["status"] is not None:
            return Answer(row["status"], row["answer"])
        if self._now_ms() - row["begun_at"] > LOST_AFTER_S * 1000:
            raise IdempotentAnswerLost(key=key, at=row["begun_at"])
        raise IdempotencyKeyBusy(key=key, wait_s=1)

    async def _awaited(self, caller: Caller, key: str, fingerprint: str) -> Answer:
        """The answer of the request that was quicker: it has done its work, so it is about to answer."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            await asyncio.sleep(_LOOK_EVERY_S)
            with contextlib.suppress(IdempotencyKeyBusy):
                kept = await self._kept(caller, key, fingerprint)
                if kept is not None:
                    return kept
        raise IdempotencyKeyBusy(key=key, wait_s=1)

    async def _keep(self, caller: Caller, key: str, row: dict[str, Any], answer: Answer, *, noted: bool) -> None:
        said = {"status": answer.status, "answer": answer.body}
        try:
            async with self._database.begin() as connection:
                if noted:
                    await connection.execute(update(kept_answers).where(_mine(caller, key)).values(said))
                else:  # nothing was written, or not here: it is answered again all the same
                    await connection.execute(insert(kept_answers).values({**row, **said}))
        except IntegrityError:
            pass  # another request with this key wrote nothing either
        except (SQLAlchemyError, StoreUnavailable) as error:  # the work is done: that is no reason to say it failed
            log.warning("the answer to %s could not be kept for its idempotency key: %s", caller.request_id, error)


async def forget_answers(connection: AsyncConnection, tenant_id: int) -> None:
    """What a tenant was answered, without the keys: after an erasure nothing that was said about a person may be left."""
    mine = and_(kept_answers.c.tenant_id == tenant_id, kept_answers.c.answer.is_not(None))
    await connection.execute(update(kept_answers).where(mine).values(status=None, answer=None))


def _name(caller: Caller, key: str) -> dict[str, Any]:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return {"tenant_id": caller.tenant_id, "actor": caller.actor, "key_digest": digest}


def _mine(caller: Caller, key: str) -> ColumnElement[bool]:
    return and_(*(kept_answers.c[column] == value for column, value in _name(caller, key).items()))
