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
from dataclasses import dataclass

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
    """One file. `sources` are the tables of ours that its query names."""

    spec: TableSpec
    query: str
    sources: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def digest(self) -> str:
        """Of the whole file: an edited one is built again."""
        told = f"{self.query}\n{self.spec.rules}"
        return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def own_tables(lake: Storage) -> list[OwnTable]:
    """What the lake's folder of SQL files declares, by name."""
    paths = sorted(entry.path for entry in lake.entries(FOLDER) if entry.path.endswith(".sql"))
    return [parse(path, (lake.read_bytes(path) or b"").decode()) for path in paths]


def own_specs(lake: Storage) -> list[TableSpec]:
    return [one.spec for one in own_tables(lake)]


def parse(path: str, text: str) -> OwnTable:
    """
    >>> made = parse("sql/orders.sql", "-- Orders.\\n-- expect drop: n >= 0\\nSELECT 1 AS n FROM relevo_gold.slo;")
    >>> made.name, made.spec.holds, made.spec.rules[0].severity, made.sources
    ('own.orders', 'Orders', 'drop', ('gold.slo',))
    """
    stem = path.rpartition("/")[2].removesuffix(".sql")
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
    sources = tuple(spec.name for spec in ALL if re.search(rf"\brelevo_{re.escape(spec.name)}\b", query, re.IGNORECASE))
    spec = spec_named(f"{OWN}.{stem}")
    told = " ".join(holds).rstrip(".") or f"the answer of {path}"
    return OwnTable(TableSpec(spec.name, spec.span, tuple(rules), holds=told), query, sources)


def _rule(path: str, severity: str, holds: str) -> Rule:
    if severity not in _SEVERITIES:
        remedy = f"Write `-- expect fail: {holds}`, with one of {', '.join(_SEVERITIES)}."
        raise BadArgument(argument="expect", value=severity, reason=f"{path} has no such severity", remedy=remedy)
    return Expectation(holds, holds, severity)
