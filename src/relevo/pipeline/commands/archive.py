"""The archive command: finished messages of work queues from SQL to the lake, verified, then deleted from SQL.

A batch goes in four steps, and a kill between any two loses and doubles nothing:

1. its rows are written to the lake and become visible, together with a note that they are still in SQL too;
2. they are read back from the lake and compared with the database, by count and by hash, inside the transaction
3. that deletes them;
4. the note is taken away.

A run that finds a note goes on at step 2. Audit rows and finished reviews are copied and stay: the one are the record, the
others belong to the messages' own room. What work queues have erased is erased in the lake at the end of every run.
"""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import pyarrow as pa
from sqlalchemy import BigInteger, Integer, SmallInteger, Table, and_, delete, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.errors import ArchiveMismatch
from relevo.pipeline.commands.erasure import NO_DIGEST, Erased, Erasure
from relevo.pipeline.lake.instants import DAY_MS
from relevo.pipeline.lake.lake import Lake
from relevo.work.store.database import Database
from relevo.work.store.search_index import forget
from relevo.work.store.tables import archive, audit, keys, labels, reviews

BATCH = 5_000
MESSAGES, AUDIT, REVIEWS = "bronze.messages", "bronze.audit", "bronze.reviews"
_NOTE = "in_both"

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Archived:
    """What a run did, or would do."""

    messages: int
    audit: int
    reviews: int
    seconds: float
    erased: Erased


Told = Callable[[str, int], None]


def _untold(_: str, __: int) -> None:
    """Told to nobody."""


class Archive:
    """Archives one database into one lake. `step` is called with the name of every step that has just been taken."""

    def __init__(self, lake: Lake, database: Database, *, step: Callable[[str], None] = lambda _: None) -> None:
        self._lake = lake
        self._database = database
        self._step = step

    async def waiting(self, older_than_ms: int) -> int:
        """How many messages a run would take."""
        from sqlalchemy import func

        async with self._database.connect() as connection:
            found = await connection.execute(
                select(func.count()).select_from(archive).where(archive.c.archived_at < older_than_ms)
            )
            return int(found.scalar_one())

    async def run(self, older_than_ms: int, *, batch: int = BATCH, told: Told = _untold) -> Archived:
        """Takes all that was archived before `older_than_ms`, copies all audit rows up to then, and carries erasures out."""
        began = time.monotonic()
        messages = await self._finish()
        while True:
            async with self._database.connect() as connection:
                wanted = (
                    select(archive).where(archive.c.archived_at < older_than_ms).order_by(archive.c.id).limit(batch)
                )
                rows = _told(await connection.execute(wanted))
            if not rows:
                break
            self._write(rows)
            messages += await self._finish()
            told(MESSAGES, messages)
        copied = await self._copy_audit(older_than_ms, batch, told)
        reviewed = await self._copy_reviews(older_than_ms, batch, told)
        # After all else: no row is in both places now, and what came to the lake meanwhile is reached too.
        erased = await Erasure(self._lake, self._database).run()
        return Archived(messages, copied, reviewed, time.monotonic() - began, erased)

    # --- messages ------------------------------------------------------------------------------------------------------

    def _write(self, rows: Rows) -> None:
        parts: dict[int, Rows] = {}
        for row in rows:
            parts.setdefault(row["created_at"] // DAY_MS, []).append(row)
        staged = self._lake.stage_arrow(MESSAGES, {day: _arrow(archive, found) for day, found in parts.items()})
        self._step("staged")
        note: dict[str, Any] = {"paths": staged.paths, "count": len(rows), "hash": digest(rows)}
        self._lake.commit(staged, instead=False, notes={_NOTE: note})
        self._step("visible")

    async def _finish(self) -> int:
        """Deletes from SQL what the note says is in both; 0 when there is none."""
        note = self._lake.notes(MESSAGES).get(_NOTE)
        if note is None:
            return 0
        kept = self._read_back(note)
        _same("rows", note["count"], len(kept))
        _same("hash", note["hash"], digest(kept))
        self._step("read back")
        ids = [row["id"] for row in kept]
        async with self._database.begin() as connection:
            there = _told(await connection.execute(select(archive).where(archive.c.id.in_(ids)).order_by(archive.c.id)))
            if there and digest(there) != note["hash"]:
                self._take_back(note)
                raise ArchiveMismatch(
                    table="the archive", what="hash", lake=note["hash"][:12], database=digest(there)[:12]
                )
            if there:
                await _delete(connection, there)
                self._step("deleting")
        self._step("deleted")
        self._lake.commit(_nothing(self._lake), instead=False, notes={_NOTE: None})
        self._step("done")
        return len(ids)

    def _read_back(self, note: dict[str, Any]) -> Rows:
        rows: Rows = []
        for path in note["paths"]:
            rows += self._lake.arrow_file(MESSAGES, path).to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    def _take_back(self, note: dict[str, Any]) -> None:
        """A row has changed since it was copied (its body was erased, say): the copy must not stay."""
        self._lake.drop_files(MESSAGES, set(note["paths"]), notes={_NOTE: None})

    # --- audit ---------------------------------------------------------------------------------------------------------

    async def _copy_audit(self, older_than_ms: int, batch: int, told: Told) -> int:
        copied = 0
        while True:
            last = self._lake.notes(AUDIT).get("last_id", 0)
            wanted = (
                select(audit).where(audit.c.id > last, audit.c.at < older_than_ms).order_by(audit.c.id).limit(batch)
            )
            async with self._database.connect() as connection:
                rows = _dicts(await connection.execute(wanted))
            if not rows:
                return copied
            self._append(AUDIT, audit, rows, "at", {"last_id": rows[-1]["id"]})
            copied += len(rows)
            told(AUDIT, copied)

    # --- reviews -------------------------------------------------------------------------------------------------------

    async def _copy_reviews(self, older_than_ms: int, batch: int, told: Told) -> int:
        """In the order they were finished. What was finished that long ago is all there: nothing comes in between later."""
        copied = 0
        while True:
            at, last = self._lake.notes(REVIEWS).get("last", [0, ""])
            ended, key = reviews.c.finished_at, reviews.c.id
            after = or_(ended > at, and_(ended == at, key > last))
            wanted = select(reviews).where(ended < older_than_ms, after).order_by(ended, key).limit(batch)
            async with self._database.connect() as connection:
                rows = _dicts(await connection.execute(wanted))
            if not rows:
                return copied
            mark = [rows[-1]["finished_at"], rows[-1]["id"]]
            self._append(REVIEWS, reviews, rows, "finished_at", {"last": mark})
            copied += len(rows)
            told(REVIEWS, copied)

    def _append(self, name: str, table: Table, rows: Rows, at: str, notes: dict[str, Any]) -> None:
        parts: dict[int, Rows] = {}
        for row in rows:
            parts.setdefault(row[at] // DAY_MS, []).append(row)
        staged = self._lake.stage_arrow(name, {day: _arrow(table, found) for day, found in parts.items()})
        self._lake.commit(staged, instead=False, notes=notes)


def digest(rows: Sequence[dict[str, Any]]) -> str:
    """The hash of rows: of every value of every column, in the order of ids."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update(msgpack.packb([row[name] for name in sorted(row)], use_bin_type=True))
    return whole.hexdigest()


async def _delete(connection: AsyncConnection, rows: Rows) -> None:
    """Messages with their labels, their idempotency keys and what they are found by, which live as long as they do."""
    await forget(connection, rows)
    for at in range(0, len(rows), 500):  # SQLite takes so many parameters and no more
        some = rows[at : at + 500]
        ids = [row["id"] for row in some]
        await connection.execute(delete(labels).where(labels.c.message_id.in_(ids)))
        await _delete_keys(connection, [row for row in some if row["idempotency_key"] is not None])
        await connection.execute(delete(archive).where(archive.c.id.in_(ids)))


async def _delete_keys(connection: AsyncConnection, rows: Rows) -> None:
    """Their keys belong to the queues they were sent to. Those of messages that rules sent on more than once are looked for by
    the message, of which there is no index."""
    if not rows:
        return
    places = {(row[queue], row["idempotency_key"]) for row in rows for queue in ("queue_id", "origin_queue_id")}
    here = tuple_(keys.c.queue_id, keys.c.idempotency_key).in_([place for place in places if place[0] is not None])
    mine = keys.c.message_id.in_([row["id"] for row in rows])
    gone = (await connection.execute(delete(keys).where(here, mine))).rowcount
    if gone < len(rows):
        await connection.execute(delete(keys).where(mine))


def _dicts(result: Any) -> Rows:
    return [dict(row) for row in result.mappings().all()]


def _told(result: Any) -> Rows:
    """Archived messages, each with its whole history and the digest of what was sent, which their rows need not say."""
    return [_in_full(row) for row in _dicts(result)]


def _in_full(row: dict[str, Any]) -> dict[str, Any]:
    by = row.pop("published_by")
    if by is not None:
        first = json.dumps([row["created_at"], "published", by, None], separators=(",", ":"), ensure_ascii=False)
        row["trail"] = f"{first},{row['trail']}"
    if row["body_digest"] is None:
        body: str | None = row["body"]
        row["body_digest"] = NO_DIGEST if body is None else hashlib.sha256(body.encode()).hexdigest()
    return row


def _arrow(table: Table, rows: Rows) -> Any:
    numbers = (BigInteger, Integer, SmallInteger)
    fields = [
        pa.field(column.name, pa.int64() if isinstance(column.type, numbers) else pa.string())
        for column in table.columns
        if column.name in rows[0]
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def _same(what: str, noted: object, found: object) -> None:
    if noted != found:
        raise ArchiveMismatch(table="the archive", what=what, lake=found, database=noted)


def _nothing(lake: Lake) -> Any:
    from relevo.pipeline.lake.lake import Staged

    return Staged(lake.spec(MESSAGES))
