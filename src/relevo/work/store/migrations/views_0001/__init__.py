"""The views as the first step makes them: a file each, and one a database where they cannot be the same."""

from __future__ import annotations

from importlib.resources import files

NAMES = ("messages", "archive", "events", "queues", "usage", "reviews", "audit", "audit_chains")

_SAID_OTHERWISE = {
    "mariadb": {" AS BIGINT)": " AS SIGNED)", 'COLLATE "C"': "COLLATE utf8mb4_nopad_bin"},
    "sqlite": {'COLLATE "C" ': ""},
    "postgresql": {},
}
"""The files speak as PostgreSQL does."""


def statement(name: str, dialect: str) -> str:
    """The statement that makes a view. Driver and all: it has no places for values."""
    database = "mariadb" if dialect in ("mysql", "mariadb") else dialect
    folder = files(__name__)
    own = folder.joinpath(f"{name}.{database}.sql")
    sql = (own if own.is_file() else folder.joinpath(f"{name}.sql")).read_text()
    for said, instead in _SAID_OTHERWISE[database].items():
        sql = sql.replace(said, instead)
    return sql
