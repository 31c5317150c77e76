"""The page docs/lake-tables.md, made from what is declared.

To renew it: `python -m relevo.pipeline.lake.tables_page > docs/lake-tables.md`.
"""

from __future__ import annotations

import sys

from relevo.pipeline.lake.columns import PARTITIONS
from relevo.pipeline.lake.tables import ALL

_HEAD = """# The lake's tables

Every table is a Delta table below the lake's folder: `gold.latency` lies in `gold/latency`, and is `relevo_gold.latency` in
SQL. Columns have these comments in the tables' own metadata too. Times are UTC. Tables marked *inner* are partial results, and
may change with any release. This page is made by `python -m relevo.pipeline.lake.tables_page`.
"""


_OWN = """## own.*

Tables that you declare: `<lake>/sql/orders.sql` is the query of `own.orders`, which is `relevo_own.orders` in SQL. Their
columns are those of the query. [How to](how-to/pipeline.md#tables-of-your-own).
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for spec in ALL:
        inner = " *Inner.*" if spec.inner else ""
        parts.append(f"## {spec.name}\n\n{spec.holds[:1].upper()}{spec.holds[1:]}.{inner}\n")
        columns = (*spec.columns, *(PARTITIONS[name] for name in spec.partition_columns))
        rows = (f"| `{one.name}` | {one.type} | {one.holds.replace('|', chr(92) + '|')} |" for one in columns)
        parts.append("\n".join(("| column | type | holds |", "|---|---|---|", *rows)) + "\n")
    return "\n".join((*parts, _OWN))


if __name__ == "__main__":
    sys.stdout.write(page())
