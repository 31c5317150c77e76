# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow comes without types.
"""The lake's tables as Iceberg tables: metadata that names the same data files. None is copied, and none is written.

It shows the version that was the newest when it was published; publish again after a build. Files that a vacuum deletes go from
under it, so a reader should not fall behind by more than a table's files are kept (seven days).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from relevo.errors import BadArgument, DependencyMissing
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.own import own_specs
from relevo.pipeline.lake.tables import ALL


def publish(lake: Lake, catalog: str | None = None, *, told: Callable[[str], None] = lambda _: None) -> dict[str, int]:
    """Publishes every table that has rows, as `relevo_<layer>.<name>`; returns how many rows each has."""
    if find_spec("pyiceberg") is None:
        raise DependencyMissing(what="publishing as Iceberg", package="pyiceberg", extra="relevo[iceberg]")
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    lake.must_exist()
    there = _catalog(lake, catalog)
    made: dict[str, int] = {}
    for spec in (*ALL, *own_specs(lake.storage)):
        version = lake.table(spec.name)
        if not version.rows or spec.inner:
            continue
        told(spec.name)
        layer, _, name = spec.name.partition(".")
        with suppress(NamespaceAlreadyExistsError):
            there.create_namespace(f"relevo_{layer}")
        place = f"relevo_{layer}.{name}"
        if there.table_exists(place):
            there.drop_table(place)
        schema = lake.log(spec.name).schema()
        columns = pa.schema([pa.field(column.name, column.type) for column in schema])
        where = lake.folder(spec.name)
        location = lake.storage.below(f"_iceberg/{spec.path}")
        table = there.create_table(place, columns, location=_address(location.uri))
        table.add_files([_address(f"{where.uri}/{file.path}") for file in version.files() if file.rows])
        made[place] = version.rows
    return made


def _catalog(lake: Lake, name: str | None) -> Any:
    if name is not None:
        from pyiceberg.catalog import load_catalog

        try:
            return load_catalog(name)
        except ValueError as error:
            said = str(error).rstrip(".")
            remedy = "Configure it in .pyiceberg.yaml or by PYICEBERG_CATALOG__... variables."
            raise BadArgument(argument="--catalog", value=name, reason=said, remedy=remedy) from error
    from pyiceberg.catalog.sql import SqlCatalog

    folder = lake.storage.below("_iceberg")
    if not lake.storage.is_local:
        remedy = "Name a catalog that pyiceberg is configured for with --catalog."
        reason = "an SQLite catalog needs a lake on this machine"
        raise BadArgument(argument="--lake", value=lake.storage.uri, reason=reason, remedy=remedy)
    folder.folder.mkdir(parents=True, exist_ok=True)
    return SqlCatalog("relevo", uri=f"sqlite:///{folder.folder}/catalog.db", warehouse=_address(folder.uri))


def _address(uri: str) -> str:
    return uri if "://" in uri else f"file://{uri}"
