"""The kinds of columns that steps speak of, frozen: a step stays what it is when store/tables.py goes on.

What a name stands for here never changes. A new kind gets a new name.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
NUMBER = sa.BigInteger().with_variant(sa.INTEGER(), "sqlite")
ULID = sa.String(26).with_variant(mysql.CHAR(26, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
TABLE: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def exact(length: int) -> sa.String:
    """Short text that is compared byte by byte."""
    kind = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return sa.String(length).with_variant(kind, "mysql", "mariadb")


def index_where_set(name: str, table: str, column: str) -> None:
    """An index over the rows that have a value there, where the database can leave the others out."""
    condition = sa.text(f"{column} IS NOT NULL")
    op.create_index(name, table, [column], sqlite_where=condition, postgresql_where=condition)
