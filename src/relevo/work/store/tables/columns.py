"""What all tables share: their prefix, their metadata, and the kinds of columns and indexes.

Times are whole milliseconds since 1970 (`_at`, `_until`): they compare, sort and travel alike everywhere. Message ids are
ULIDs, so that the primary key is also the order of arrival. JSON is kept as text: bodies leave as they came, byte for byte.
All text is compared byte by byte, never by the rules of a language, and a space behind it counts: MariaDB's plain `_bin`
collations fill the shorter text up with spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    MetaData,
    String,
    Table,
    Text,
    false,
    text,
)
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.sql import operators

PREFIX = "relevo_store_"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}

Number = BigInteger().with_variant(sqlite.INTEGER(), "sqlite")  # SQLite counts up by itself only in an INTEGER key

_BYTES = "C"
"""PostgreSQL's collation by bytes; without it text follows the language that the database was made with."""

Document = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb").with_variant(Text(collation=_BYTES), "postgresql")


class Ascii(String):
    """Text without any letter beyond ASCII: half of the work on MariaDB, where ids and states are in the hot indexes."""

    class Comparator(String.Comparator[str]):
        def operate(self, op: operators.OperatorType, *other: Any, **options: Any) -> ColumnElement[Any]:
            """Whoever looks for a text that cannot be here finds nothing. MariaDB refuses to compare them."""
            if op is operators.eq and isinstance(other[0], str) and not other[0].isascii():
                return false()
            return super().operate(op, *other, **options)

    comparator_factory = Comparator


def exact(length: int) -> String:
    """Short text of our own making: slugs, states, tokens, digests."""
    kind = mysql.VARCHAR(length, charset="ascii", collation="ascii_nopad_bin")
    return Ascii(length).with_variant(kind, "mysql", "mariadb").with_variant(String(length, _BYTES), "postgresql")


def words(length: int) -> String:
    """Text that people and programs hand in: names, keys, labels."""
    return String(length).with_variant(String(length, _BYTES), "postgresql")


def ulid(name: str, **options: Any) -> Column[str]:
    kind = mysql.CHAR(26, charset="ascii", collation="ascii_nopad_bin")
    text = Ascii(26).with_variant(kind, "mysql", "mariadb").with_variant(String(26, _BYTES), "postgresql")
    return Column(name, text, **options)


def among(column: str, words: Sequence[str]) -> CheckConstraint:
    """A column that says one of these words. Not with IN: SQLite makes a table of the list for each row, which costs more than
    the row."""
    return CheckConstraint(" OR ".join(f"{column} = '{word}'" for word in words), name=column)


def not_negative(*columns: str) -> CheckConstraint:
    """Columns that count."""
    return CheckConstraint(" AND ".join(f"{column} >= 0" for column in columns), name=columns[0])


def partial(name: str, *columns: str, where: str) -> Index:
    """An index over some rows only, where the database has such: what a message does not need in its state costs it nothing.
    A query finds it only when it says the condition in the same words, see below the tables of messages."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def where_set(name: str, column: str) -> Index:
    """An index for agents over a time that only rows in one state have: `visible_at` while delayed, `claim_until` while
    claimed, `finished_at` when terminal, else NULL. So that a change of state touches few indexes, and most inserts none."""
    return partial(name, column, where=f"{column} IS NOT NULL")


def table(name: str, *columns: Any, **options: Any) -> Table:
    return Table(PREFIX + name, metadata, *columns, **_MYSQL, **options)


NEVER_AGAIN: dict[str, Any] = {"sqlite_autoincrement": True}
"""For tables whose rows go while their numbers are still known elsewhere (the `seq` of an event, the queue of an audit row):
without it SQLite gives the number of a deleted last row to the next one. The other databases never do."""
