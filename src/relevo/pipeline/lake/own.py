"""Tables of your own, from SQL: each file `<lake>/sql/<name>.sql` is a query, and its answer the table `own.<name>`.

Comments at the head of a file say what the table holds and what must be true of its rows:

    -- Orders a day.
    -- expect fail: queue IS NOT NULL
    -- expect drop: orders >= 0
    SELECT date, queue, sum(arrived) AS orders FROM relevo_gold.throughput GROUP BY date, queue
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from relevo.errors import BadArgument
from relevo.pipeline.lake.expectations import Expectation, Rule
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.lake.tables import ALL, OWN, TableSpec, spec_named

FOLDER = "sql"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_EXPECT = re.compile(r"expect\s+(?P<severity>\w+)\s*:\s*(?P<holds>.+)")
_SEVERITIES = ("warn", "drop", "fail")


@dataclass(frozen=True)
class OwnTable:
    """One file. `sources` are the tables that its query names."""

    spec: TableSpec
    query: str
    sources: tuple[str, ...]
    circle: tuple[str, ...] = ()
    """Where it is made of itself: the tables on the way, from itself to itself."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def digest(self) -> str:
        """Of the whole file: an edited one is built again."""
        told = f"{self.query}\n{self.spec.rules}"
        return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def own_tables(lake: Storage) -> list[OwnTable]:
    """What the lake's folder of SQL files declares: each table behind those that it is made of, else by name."""
    paths = sorted(entry.path for entry in lake.entries(FOLDER) if entry.path.endswith(".sql"))
    names = [f"{OWN}.{_stem(path)}" for path in paths]
    return in_order([parse(path, (lake.read_bytes(path) or b"").decode(), names) for path in paths])


def own_specs(lake: Storage) -> list[TableSpec]:
    return [one.spec for one in own_tables(lake)]


def in_order(tables: Iterable[OwnTable]) -> list[OwnTable]:
    """Each behind those that it is made of.

    >>> a, b = (
    ...     parse(f"sql/{name}.sql", text, ["own.a", "own.b"]) for name, text in (("a", "relevo_own.b"), ("b", "1"))
    ... )
    >>> [table.name for table in in_order([a, b])]
    ['own.b', 'own.a']
    """
    named = {table.name: table for table in sorted(tables, key=lambda table: table.name)}
    while True:
        made_of = {name: () if table.circle else sorted(named.keys() & table.sources) for name, table in named.items()}
        try:
            order = [*TopologicalSorter(made_of).static_order()]
        except CycleError as error:
            circle: tuple[str, ...] = tuple(reversed(error.args[1]))
            for place, name in enumerate(circle[:-1]):
                around = (*circle[place:-1], *circle[: place + 1])
                named[name] = replace(named[name], circle=around)
        else:
            return [named[name] for name in order]


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".sql")


def parse(path: str, text: str, own: Collection[str] = ()) -> OwnTable:
    """`own` are the names of all tables of this kind.

    >>> made = parse("sql/orders.sql", "-- Orders.\\n-- expect drop: n >= 0\\nSELECT 1 AS n FROM relevo_gold.slo;")
    >>> made.name, made.spec.holds, made.spec.rules[0].severity, made.sources
    ('own.orders', 'Orders', 'drop', ('gold.slo',))
    """
    stem = _stem(path)
    if not _NAME.fullmatch(stem):
        remedy = "Name the file with small letters, digits and `_`, such as orders_a_day.sql."
        raise BadArgument(argument="file", value=path, reason="this is no name for a table", remedy=remedy)
    holds, rules = list[str](), list[Rule]()
    for line in text.lstrip().splitlines():
        if not line.startswith("--"):
            break
        said = line.removeprefix("--").strip()
        if found := _EXPECT.fullmatch(said):
            rules.append(_rule(path, found["severity"], found["holds"].strip()))
        elif said:
            holds.append(said)
    query = text.strip().rstrip(";")
    known = (*(spec.name for spec in ALL), *own)
    sources = tuple(name for name in known if re.search(rf"\brelevo_{re.escape(name)}\b", query, re.IGNORECASE))
    spec = spec_named(f"{OWN}.{stem}")
    told = " ".join(holds).rstrip(".") or f"the answer of {path}"
    return OwnTable(TableSpec(spec.name, spec.span, tuple(rules), holds=told), query, sources)


def _rule(path: str, severity: str, holds: str) -> Rule:
    if severity not in _SEVERITIES:
        remedy = f"Write `-- expect fail: {holds}`, with one of {', '.join(_SEVERITIES)}."
        raise BadArgument(argument="expect", value=severity, reason=f"{path} has no such severity", remedy=remedy)
    return Expectation(holds, holds, severity)
