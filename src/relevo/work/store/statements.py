"""The hot SQL: one file a statement in sql/<dialect>/, named after the method of the driver that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from operator import itemgetter

from sqlalchemy import Table

from relevo.work.store.port import Dialect, Row


@cache
def statement(dialect: Dialect, name: str) -> str:
    """The statement in `sql/<dialect>/<name>.sql`, without the remarks above it.

    >>> statement("sqlite", "waiting").splitlines()[0]
    'SELECT COALESCE(SUM(pending + delayed), 0)'
    """
    text = files("relevo.work.store").joinpath(f"sql/{dialect}/{name}.sql").read_text()
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def column_names(table: Table, columns: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(columns) if columns is not None else tuple(column.name for column in table.columns)


def filled(columns: tuple[str, ...], rows: Sequence[Row]) -> tuple[tuple[str, ...], Sequence[Row]]:
    """Columns and rows without those columns that have no value in any row. Most messages say little.

    >>> filled(("id", "deadline", "body"), [(1, None, "a"), (2, None, None)])
    (('id', 'body'), [(1, 'a'), (2, None)])
    """
    first = rows[0]
    kept = [at for at in range(len(columns)) if first[at] is not None or any(row[at] is not None for row in rows)]
    if len(kept) == len(columns) or len(kept) < 2:  # of one column itemgetter makes no tuple
        return columns, rows
    pick = itemgetter(*kept)
    return pick(columns), list(map(pick, rows))


@cache
def labelled(dialect: Dialect, count: int) -> str:
    """`take_next` with a condition for each of `count` labels (name, value), whose places come after all others."""
    if dialect == "mariadb":
        places = ["%s, %s"] * count
    elif dialect == "postgresql":
        places = [f"${8 + 2 * at}, ${9 + 2 * at}" for at in range(count)]
    else:
        places = [f"?{3 + 2 * at}, ?{4 + 2 * at}" for at in range(count)]
    condition = (
        "AND EXISTS (SELECT 1 FROM relevo_labels AS l WHERE l.scope_id = m.scope_id AND (l.name, l.value) = ({})"
        " AND l.message_id = m.id)"
    )
    return statement(dialect, "take_next").replace("/*labels*/", " ".join(condition.format(each) for each in places))
