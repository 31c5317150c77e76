"""The archive job: rows leave SQL for the lake once, whatever is killed when. No Spark here."""

import asyncio
import hashlib
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select, update

from relevo.errors import ArchiveMismatch
from relevo.pipeline.commands.archive import Archive
from relevo.pipeline.lake.lake import Lake
from relevo.wire.ids import IdMint
from relevo.work.store.database import Database
from relevo.work.store.tables import archive, audit, keys, labels, metadata, reviews, scopes, tenants
from tests.servers.child import Child

MESSAGES = 10
NOW = 1_760_000_000_000
OTHER = IdMint()(NOW)
"""A message that stays."""


class Room:
    """A database with ten archived messages, and a lake."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'work.db'}"
        self.database = Database(self.url)
        self.lake = Lake(folder / "lake")
        mint = IdMint()
        self.ids = [mint(NOW + number * 40_000_000) for number in range(MESSAGES)]

    async def fill(self) -> None:
        async with self.database.begin() as connection:
            await connection.run_sync(metadata.create_all)
            await connection.execute(insert(archive), [self._row(id_, number) for number, id_ in enumerate(self.ids)])
            await connection.execute(
                insert(labels), [{"scope_id": 1, "name": "a", "value": "b", "message_id": id_} for id_ in self.ids]
            )
            places = (
                1,
                2,
                3,
            )  # a message ends in queue 1; the last of these was sent on more than once, and names neither
            held = [
                {"queue_id": places[number % 3], "idempotency_key": f"k{number}", "message_id": id_}
                for number, id_ in enumerate([*self.ids, OTHER])
            ]
            await connection.execute(insert(keys), held)
            for number in range(3):
                values: dict[str, Any] = {column.name: 0 for column in audit.columns if not column.nullable}
                values |= {
                    column.name: "x"
                    for column in audit.columns
                    if not column.nullable and column.type.python_type is str
                }
                await connection.execute(insert(audit).values(**(values | {"id": number + 1, "at": NOW + number})))

    def _row(self, id_: str, number: int) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for column in archive.columns:
            if not column.nullable:
                row[column.name] = "x" if column.type.python_type is str else number
        at = NOW + number * 40_000_000
        return row | {
            "id": id_,
            "queue_id": 1,
            "origin_queue_id": 2,
            "idempotency_key": f"k{number}",
            "published_by": "key:1",
            "state": "completed",
            "body": f'{{"n": {number}}}',
            "created_at": at,
            "archived_at": at + 1,
        }

    async def left(self) -> list[str]:
        async with self.database.connect() as connection:
            return list((await connection.execute(select(archive.c.id).order_by(archive.c.id))).scalars())

    def kept(self) -> Counter[str]:
        rows: Any = self.lake.arrow("bronze.messages")
        return Counter([] if rows is None else rows["id"].to_pylist())


def _filled(table: Table) -> dict[str, Any]:
    """A row with something in every column that must have something; ids are 1."""
    needed = [
        column for column in table.columns if not column.nullable and (table is not reviews or column.name != "id")
    ]
    return {column.name: "x" if column.type.python_type is str else 1 for column in needed}


@pytest.fixture
async def room(tmp_path: Path) -> AsyncGenerator[Room]:
    made = Room(tmp_path)
    await made.fill()
    yield made
    await made.database.close()


async def test_old_messages_move_to_the_lake_with_all_their_columns(room: Room) -> None:
    done = await Archive(room.lake, room.database).run(NOW + 5 * 40_000_000, batch=2)
    assert (done.messages, done.audit) == (5, 3)
    assert await room.left() == room.ids[5:]
    rows: Any = room.lake.arrow("bronze.messages")
    assert sorted(row["body"] for row in rows.to_pylist()) == [f'{{"n": {number}}}' for number in range(5)]
    assert set(rows.column_names) == {column.name for column in archive.columns} - {"published_by"}
    first = rows.to_pylist()[0]
    assert first["trail"] == f'[{first["created_at"]},"published","key:1",null],x', "who published it is in its history"
    assert first["body_digest"] == hashlib.sha256(first["body"].encode()).hexdigest()


async def test_finished_reviews_are_copied_once_and_those_still_open_are_not(room: Room) -> None:
    ids = IdMint()
    async with room.database.begin() as connection:
        await connection.execute(insert(tenants).values(**_filled(tenants)))
        await connection.execute(insert(scopes).values(**_filled(scopes) | {"state": "active"}))
        for finished in (NOW, NOW, None, NOW + 1):
            state = "waiting" if finished is None else "decided"
            values = _filled(reviews) | {"id": ids(), "state": state, "finished_at": finished}
            await connection.execute(insert(reviews).values(**values))
    first = await Archive(room.lake, room.database).run(10**15, batch=1)
    again = await Archive(room.lake, room.database).run(10**15, batch=1)
    assert (first.reviews, again.reviews, room.lake.table("bronze.reviews").rows) == (3, 0, 3)


async def test_what_belonged_to_a_message_goes_with_it_and_the_audit_stays(room: Room) -> None:
    await Archive(room.lake, room.database).run(10**15)
    async with room.database.connect() as connection:
        assert (await connection.execute(select(func.count()).select_from(labels))).scalar_one() == 0
        assert list((await connection.execute(select(keys.c.message_id))).scalars()) == [OTHER]
        assert (await connection.execute(select(func.count()).select_from(audit))).scalar_one() == 3
    again = await Archive(room.lake, room.database).run(10**15)
    assert (again.messages, again.audit) == (0, 0)


@pytest.mark.parametrize(
    "step",
    [
        "visible",
        "deleting",
        *(pytest.param(step, marks=pytest.mark.whole) for step in ("staged", "read back", "deleted", "done")),
    ],
)
async def test_killed_after_any_step_nothing_is_lost_and_nothing_doubled(step: str, room: Room) -> None:
    doomed = (sys.executable, "-m", "tests.spark.lake.doomed_archive", room.url, room.lake.root, step)
    died = await asyncio.to_thread(Child.run, *doomed, cwd=Path(__file__).parents[3])
    assert died.code == -signal.SIGKILL, died.err
    assert set(room.kept()) | set(await room.left()) == set(room.ids)
    await Archive(room.lake, room.database).run(10**15, batch=4)
    assert await room.left() == []
    assert room.kept() == Counter(room.ids)


async def test_a_row_that_changed_after_it_was_copied_is_not_deleted_and_its_copy_does_not_stay(room: Room) -> None:
    """As when a body is erased in that very moment."""
    seen = list[str]()

    def step(name: str) -> None:
        seen.append(name)
        if name == "visible":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await Archive(room.lake, room.database, step=step).run(10**15)
    async with room.database.begin() as connection:
        await connection.execute(update(archive).where(archive.c.id == room.ids[3]).values(body=None))
    with pytest.raises(ArchiveMismatch, match="nothing was"):
        await Archive(room.lake, room.database).run(10**15)
    assert (await room.left(), room.kept()) == (room.ids, Counter())
    await Archive(room.lake, room.database).run(10**15)
    assert (await room.left(), room.kept()) == ([], Counter(room.ids))


async def test_a_lake_that_lost_what_it_was_given_keeps_the_database_s_rows(room: Room) -> None:
    def step(name: str) -> None:
        if name == "visible":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await Archive(room.lake, room.database, step=step).run(10**15)
    file = next(room.lake.root.rglob("date=20*/*.parquet"))
    other = next(path for path in room.lake.root.rglob("date=20*/*.parquet") if path != file)
    file.write_bytes(other.read_bytes())
    with pytest.raises(ArchiveMismatch):
        await Archive(room.lake, room.database).run(10**15)
    assert await room.left() == room.ids
