"""The hot SQL: one file a statement in <dialect>/, named after the method of the driver that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from operator import itemgetter

from sqlalchemy import Table

from relevo.work.store.interface import Dialect, Row


@cache
def statement(dialect: Dialect, name: str) -> str:
    """The statement in `<dialect>/<name>.sql`, without the remarks above it.

    >>> statement("sqlite", "waiting").splitlines()[0]
    'SELECT COALESCE(SUM(pending + delayed), 0)'
    """
    text = files("relevo.work.store").joinpath(f"{dialect}/{name}.sql").read_text()
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def column_names(table: Table, columns: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(columns) if columns is not None else tuple(column.name for column in table.columns)


def filled(columns: tuple[str, ...], rows: Sequence[Row]) -> tuple[tuple[str, ...], Sequence[Row]]:
    """Columns and rows without those columns that have no value in any row. Most messages say little.

    >>> filled(("id", "deadline", "body"), [(1, None, "a"), (2, None, None)])
    (('id', 'body'), [(1, 'a'), (2, None)])
    """
    kept = [at for at, value in enumerate(rows[0]) if value is not None or set(map(itemgetter(at), rows)) != {None}]
    if len(kept) == len(columns) or len(kept) < 2:  # of one column itemgetter makes no tuple
        return columns, rows
    pick = itemgetter(*kept)
    return pick(columns), list(map(pick, rows))


def in_bulk(sql: str, rows: Sequence[Row]) -> tuple[str, Sequence[Row]]:
    """A statement for MariaDB and its rows, without the places that no row has a value for: what has no type cannot be bound in
    bulk, and would have the whole sent as text, row by row.

    >>> in_bulk("UPDATE t SET a = %s, b = %s WHERE id = %s", [(None, 1, 7), (None, 2, 8)])
    ('UPDATE t SET a = NULL, b = %s WHERE id = %s', [(1, 7), (2, 8)])
    """
    empty = {at for at in range(len(rows[0])) if all(row[at] is None for row in rows)}
    if not empty:
        return sql, rows
    before, *rest = sql.split("%s")
    text = before + "".join(("NULL" if at in empty else "%s") + part for at, part in enumerate(rest))
    return text, [tuple(value for at, value in enumerate(row) if at not in empty) for row in rows]


RARE = 2_000
"""Messages with a label up to which a claim looks at each of them, wherever they are. Of more it walks along the queue's order,
where it meets them soon."""


@cache
def labelled(dialect: Dialect, count: int, *, rare: bool = False) -> str:
    """The statement that finds a queue's first messages with a condition for each of `count` labels, whose places come after
    the queue's, the limit's and the scope's; on MariaDB each condition has scope, name and value, and the limit comes last."""
    if dialect == "mariadb":
        places = ["%s AND (l.name, l.value) = (%s, %s)"] * count
    elif dialect == "postgresql":
        places = [f"$3 AND (l.name, l.value) = (${4 + 2 * at}, ${5 + 2 * at})" for at in range(count)]
    else:
        places = [f"?3 AND (l.name, l.value) = (?{4 + 2 * at}, ?{5 + 2 * at})" for at in range(count)]
    condition = "AND EXISTS (SELECT 1 FROM relevo_store_labels AS l WHERE l.scope_id = {} AND l.message_id = r.id)"
    if dialect == "postgresql":  # which would make a join of EXISTS, and read all that carry the label
        condition = "AND (SELECT true FROM relevo_store_labels AS l WHERE l.scope_id = {} AND l.message_id = r.id)"
    name = "claim_rare" if rare else "claim_labelled" if dialect == "mariadb" else "claim_next"
    return statement(dialect, name).replace("/*labels*/", " ".join(condition.format(each) for each in places))
