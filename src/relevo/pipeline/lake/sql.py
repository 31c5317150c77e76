# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyarrow comes without types.
"""SQL over the lake without Spark and without a JVM: DataFusion, which `deltalake` brings along.

Tables have the names that `Lake.register` gives them in Spark (`relevo_gold.latency`), and their short ones (`gold.latency`).
"""

from __future__ import annotations

import re
import tempfile
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from relevo.errors import SqlRefused
from relevo.pipeline.lake.delta import DeltaLog
from relevo.pipeline.lake.own import own_specs
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.lake.tables import ALL, OWN, TableSpec

_LAYERS = (*dict.fromkeys(spec.layer for spec in ALL), OWN)


def query(lake: Storage, text: str) -> Any:
    """The answer to one query, as an Arrow table. It only reads: what writes, to a table or to a file, is refused."""
    builder, there = QueryBuilder(), list[str]()
    try:
        for layer in _LAYERS:
            for schema in (layer, f"relevo_{layer}"):
                builder.execute(f"CREATE SCHEMA {schema}").read_all()
        for spec in (*ALL, *own_specs(lake)):
            _, _, name = spec.name.partition(".")
            opened = DeltaLog.of(lake, spec).opened()
            if opened is None and spec.layer == OWN:
                continue  # its columns are not known before it is built
            if opened is not None:
                there.append(f"relevo_{spec.layer}.{name}")
            if re.search(rf"(?:\b|_){spec.layer}[\"`]?\.[\"`]?{name}\b", text, re.IGNORECASE):
                for schema in (spec.layer, f"relevo_{spec.layer}"):
                    builder.register(f"{schema}.{name}", _without_rows(spec) if opened is None else opened)
        plain = text.strip().rstrip(";")
        # Only a query can stand inside of another one; COPY, INSERT and DROP cannot.
        builder.execute(f"SELECT * FROM ({plain}\n) AS asked LIMIT 0").read_all()  # noqa: S608 - the query is the user's own
        return pa.table(builder.execute(plain).read_all())
    except (DeltaError, ValueError, OSError) as error:
        raise SqlRefused(reason=str(error), tables=", ".join(there)) from None


def _without_rows(spec: TableSpec) -> DeltaTable:
    """A table that nobody has written yet, as its columns are declared: a question to it is answered, with no rows."""
    with tempfile.TemporaryDirectory(prefix="relevo-") as folder:
        return DeltaLog(Storage.at(folder), spec).create()
