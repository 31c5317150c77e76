"""The schemas of a scope, and which queue asks for which. Publishing looks here through a cache a second old at most."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.schemas import Binding, Compatibility, Schema
from relevo.errors import NotFound, SchemaIncompatible, SchemaInUse
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.queue_record import QueueRecord
from relevo.work.schemas.checker import Checker
from relevo.work.store.cache import SingleFlightCache
from relevo.work.store.database import Database
from relevo.work.store.tables import live, queue_schemas, queues, schemas
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import CACHED_MS, Queues, require_scope
from relevo.work.tenancy.versions import Versions

UNFINISHED = ("pending", "delayed", "claimed", "in_review")
_PAGE = 500


Bound = tuple[str, int, Checker]
"""The schema of a queue: its name, its version, and the compiled form."""

_UNKNOWN = object()


class Schemas(Versions[Schema]):
    """The schemas of an installation."""

    def __init__(self, transactions: Transactions, database: Database, queues: Queues, now_ms: Clock) -> None:
        super().__init__(transactions, database, schemas, what="schema", audited="schema", shown=_schema)
        self._queues = queues
        self._bound = SingleFlightCache(self._look, now_ms=now_ms, kept_ms=CACHED_MS)
        queues.changed.listen(lambda _: self._bound.forget_all())

    # --- schemas ---------------------------------------------------------------------------------------------------------

    async def add(self, caller: Caller, scope: str, name: str, definition: str) -> Schema:
        """A new version, the first if there is none yet."""

        def checked() -> str:
            Checker(definition)
            return definition

        return await self._keep(caller, scope, name, checked)

    async def remove(self, caller: Caller, scope: str, name: str) -> None:
        """All versions of a schema that no queue asks for."""
        caller.require("manage", scope)

        async def forget(transaction: SqlUnitOfWork) -> None:
            connection = transaction.connection
            owner = await require_scope(connection, caller.tenant_id, scope, lock=True)
            await self._row(connection, owner["id"], name, None)
            users = (
                select(queues.c.slug)
                .join_from(queue_schemas, queues, queues.c.id == queue_schemas.c.queue_id)
                .where(queues.c.scope_id == owner["id"], queue_schemas.c.schema_name == name)
            )
            using = list((await connection.execute(users)).scalars())
            if using:
                raise SchemaInUse(schema=name, queues=", ".join(sorted(using)))
            mine = (schemas.c.scope_id == owner["id"]) & (schemas.c.name == name)
            await connection.execute(delete(schemas).where(mine))
            transaction.audit(caller, "schema.remove", name, scope_id=owner["id"])

        await self._transactions.run(forget)

    # --- queues ----------------------------------------------------------------------------------------------------------

    async def bind(
        self, caller: Caller, scope: str, queue: str, name: str, version: int | None = None, *, force: bool = False
    ) -> Binding:
        """From now on bodies published to the queue must fit. Refused when messages that wait there would not."""
        caller.require("manage")
        record = await self._queues.lookup(caller, scope, queue)

        async def save(transaction: SqlUnitOfWork) -> Binding:
            connection = transaction.connection
            # Publishes that began before this is committed may still go by the old binding: they hold no lock of ours.
            await connection.execute(select(queues.c.id).where(queues.c.id == record.id).with_for_update())
            row = await self._row(connection, record.scope_id, name, version)
            if not force:
                fit = await _compatibility(connection, record, Checker(row["definition"]))
                if fit.refused:
                    raise SchemaIncompatible(
                        schema=name, version=row["version"], count=fit.refused, example=fit.examples[0]
                    )
            await connection.execute(delete(queue_schemas).where(queue_schemas.c.queue_id == record.id))
            bound = {"queue_id": record.id, "schema_name": name, "schema_version": row["version"]}
            await connection.execute(insert(queue_schemas).values(bound))
            after = msgspec.json.encode({"schema": name, "version": row["version"], "force": force}).decode()
            transaction.audit(caller, "schema.bind", queue, scope_id=record.scope_id, queue_id=record.id, after=after)
            return Binding(queue=queue, schema=name, version=row["version"])

        made = await self._transactions.run(save)
        self._queues.tell(caller.tenant_id)
        return made

    async def unbind(self, caller: Caller, scope: str, queue: str) -> None:
        caller.require("manage")
        record = await self._queues.lookup(caller, scope, queue)

        async def save(transaction: SqlUnitOfWork) -> None:
            mine = queue_schemas.c.queue_id == record.id
            gone = await transaction.connection.execute(delete(queue_schemas).where(mine))
            if gone.rowcount == 0:
                raise NotFound(what="schema binding of queue", name=queue)
            transaction.audit(caller, "schema.unbind", queue, scope_id=record.scope_id, queue_id=record.id)

        await self._transactions.run(save)
        self._queues.tell(caller.tenant_id)

    async def bound(self, caller: Caller, scope: str, queue: str) -> Binding | None:
        caller.require("view")
        record = await self._queues.lookup(caller, scope, queue)
        found = await self.checker_of(record.id)
        return None if found is None else Binding(queue=queue, schema=found[0], version=found[1])

    async def compatibility(
        self, caller: Caller, scope: str, queue: str, name: str, version: int | None = None
    ) -> Compatibility:
        """How what waits in a queue fits a schema, without binding it."""
        caller.require("view")
        record = await self._queues.lookup(caller, scope, queue)
        async with self._database.connect() as connection:
            row = await self._row(connection, record.scope_id, name, version)
            return await _compatibility(connection, record, Checker(row["definition"]))

    def is_free(self, queue_id: int) -> bool:
        """Whether it is known, from less than a second ago, that this queue asks for no schema."""
        return self._bound.peek(queue_id, _UNKNOWN) is None

    async def checker_of(self, queue_id: int) -> Bound | None:
        """What bodies of this queue must fit, as of less than a second ago."""
        return await self._bound.of(queue_id)

    async def _look(self, queue_id: int) -> Bound | None:
        b, s = queue_schemas.c, schemas.c
        query = (
            select(b.schema_name, b.schema_version, s.definition)
            .join_from(queue_schemas, queues, queues.c.id == b.queue_id)
            .join(
                schemas,
                (s.scope_id == queues.c.scope_id) & (s.name == b.schema_name) & (s.version == b.schema_version),
            )
            .where(b.queue_id == queue_id)
        )
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else (str(row[0]), int(row[1]), Checker(row[2]))


async def _compatibility(connection: AsyncConnection, queue: QueueRecord, checker: Checker) -> Compatibility:
    """Looks at every unfinished message, a page at a time."""
    looked_at, refused, examples, after = 0, 0, list[str](), ""
    m = live.c
    while True:
        page = (
            select(m.id, m.body)
            .where(m.scope_id == queue.scope_id, m.id > after, m.queue_id == queue.id, m.state.in_(UNFINISHED))
            .order_by(m.id)
            .limit(_PAGE)
        )
        rows = (await connection.execute(page)).all()
        for message_id, body in rows:
            looked_at += 1
            if body is not None and not checker.fits(body):
                refused += 1
                if len(examples) < 10:
                    examples.append(f"{message_id} ({checker.faults(body)[0]})")
        if len(rows) < _PAGE:
            return Compatibility(looked_at=looked_at, refused=refused, examples=examples)
        after = rows[-1][0]


def _schema(row: Any) -> Schema:
    return Schema(
        name=row["name"],
        version=row["version"],
        definition=msgspec.Raw(row["definition"].encode()),
        created_by=row["created_by"],
        created_at=row["created_at"],
    )
