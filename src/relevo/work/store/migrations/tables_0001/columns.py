"""The kinds of columns and indexes that steps speak of. What a name stands for here never changes: a new kind has a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, MetaData, String, Table, Text, text
from sqlalchemy.dialects import mysql, sqlite

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

Number = BigInteger().with_variant(sqlite.INTEGER(), "sqlite")

_BYTES = "C"

Document = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb").with_variant(Text(collation=_BYTES), "postgresql")


def exact(length: int) -> String:
    kind = mysql.VARCHAR(length, charset="ascii", collation="ascii_nopad_bin")
    return String(length).with_variant(kind, "mysql", "mariadb").with_variant(String(length, _BYTES), "postgresql")


def words(length: int) -> String:
    return String(length).with_variant(String(length, _BYTES), "postgresql")


def ulid(name: str, **options: Any) -> Column[str]:
    kind = mysql.CHAR(26, charset="ascii", collation="ascii_nopad_bin")
    text = String(26).with_variant(kind, "mysql", "mariadb").with_variant(String(26, _BYTES), "postgresql")
    return Column(name, text, **options)


def among(column: str, words: Sequence[str]) -> CheckConstraint:
    return CheckConstraint(" OR ".join(f"{column} = '{word}'" for word in words), name=column)


def not_negative(*columns: str) -> CheckConstraint:
    return CheckConstraint(" AND ".join(f"{column} >= 0" for column in columns), name=columns[0])


def partial(name: str, *columns: str, where: str) -> Index:
    """An index over some rows only, where the database has such."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def where_set(name: str, column: str) -> Index:
    """An index over the rows that have a value there, where the database can leave the others out."""
    return partial(name, column, where=f"{column} IS NOT NULL")


def table(name: str, *columns: Any, **options: Any) -> Table:
    return Table(PREFIX + name, metadata, *columns, **_MYSQL, **options)


NEVER_AGAIN: dict[str, Any] = {"sqlite_autoincrement": True}
"""SQLite gives the number of a deleted last row to the next one unless it is told not to. The other databases never do."""
