"""The outbox's table: jobs that were committed with a transaction and are not sent yet."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import overload

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
)
from sqlalchemy.dialects.mysql import LONGBLOB
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relevo.arguments import checked_name, instance
from relevo.outbox.commit_notifier import CommitNotifier

ID_LENGTH = 255
QUEUE_LENGTH = 255


class OutboxTable:
    """The table, in a `MetaData` of yours, so that your migrations see it (alembic's autogenerate does).

    >>> OutboxTable(MetaData()).table.name
    'relevo_outbox'

    Without migrations `create` makes it where it is missing. A row is there from the commit of your transaction until its
    job is in Redis; rows with an `error` are those to look at.
    """

    def __init__(
        self, metadata: MetaData | None = None, *, name: str = "relevo_outbox", schema: str | None = None
    ) -> None:
        if metadata is not None:
            instance("metadata", metadata, MetaData)
        checked_name("name", name)
        if schema is not None:
            checked_name("schema", schema)
        self.commits: CommitNotifier = CommitNotifier()
        """Notified when a transaction of this process has put jobs into the table."""
        self.table: Table = Table(
            name,
            MetaData() if metadata is None else metadata,
            # The database counts, not our clocks: what is committed before another transaction adds is sent before it.
            Column("seq", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True),
            Column("job_id", String(ID_LENGTH), nullable=False),
            Column("queue", String(QUEUE_LENGTH), nullable=False),
            Column("name", String(256), nullable=False),
            Column("data", LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb"), nullable=False),
            Column("options", Text, nullable=True),
            Column("run_at_ms", BigInteger, nullable=True),
            Column("created_at_ms", BigInteger, nullable=False),
            Column("held_by", String(26), nullable=True),
            Column("held_until_ms", BigInteger, nullable=False, server_default="0"),
            Column("attempts", Integer, nullable=False, server_default="0"),
            Column("error", Text, nullable=True),
            Column("set_aside", Boolean, nullable=False, server_default=false()),
            Index(f"ix_{name}_line", "set_aside", "queue", "seq"),
            schema=schema,
            sqlite_autoincrement=True,
        )

    @overload
    def create(self, bind: Engine | Connection) -> None: ...
    @overload
    def create(self, bind: AsyncEngine | AsyncConnection) -> Awaitable[None]: ...
    def create(self, bind: Engine | Connection | AsyncEngine | AsyncConnection) -> Awaitable[None] | None:
        """Makes the table where it is missing; to be awaited with an async engine or connection."""
        if isinstance(bind, AsyncEngine | AsyncConnection):
            return self._create_async(bind)
        self.table.create(bind, checkfirst=True)
        return None

    async def _create_async(self, bind: AsyncEngine | AsyncConnection) -> None:
        if isinstance(bind, AsyncConnection):
            await bind.run_sync(self.create)
            return
        async with bind.begin() as connection:
            await connection.run_sync(self.create)
