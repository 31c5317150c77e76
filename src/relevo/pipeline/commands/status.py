"""The status command: every table of the lake, how new it is, and what is wrong with it. No Spark, no JVM."""

from __future__ import annotations

from dataclasses import dataclass

from relevo.errors import LakeTooNew
from relevo.pipeline.lake.delta import source_mark
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.own import own_specs
from relevo.pipeline.lake.tables import ALL


@dataclass(frozen=True)
class TableStatus:
    """One table. `behind` names the sources that have changed since it was built; `broken` why its last renewal failed."""

    table: str
    holds: str
    version: int
    written_at_ms: int
    rows: int
    bytes: int
    partitions: int
    files: int
    behind: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    inner: bool = False

    @property
    def well(self) -> bool:
        return not self.broken


def status(lake: Lake) -> list[TableStatus]:
    """Of all tables, also of those that do not exist yet (version 0)."""
    lake.must_exist()
    found: list[TableStatus] = []
    specs = (*ALL, *own_specs(lake.storage))
    marks = {spec.name: source_mark(spec.name) for spec in specs}
    for spec in specs:
        try:
            version = lake.table(spec.name, *marks.values())
        except LakeTooNew as error:
            found.append(TableStatus(spec.name, spec.holds, 0, 0, 0, 0, 0, 0, broken=(str(error),), inner=spec.inner))
            continue
        complaint = lake.complaint(spec.name)
        sources = {name: version.marks[mark] for name, mark in marks.items() if mark in version.marks}
        behind = tuple(source for source, taken in sources.items() if _changed(lake, source, taken))
        found.append(
            TableStatus(
                spec.name,
                spec.holds,
                version.version,
                lake.log(spec.name).written_at_ms(),
                version.rows,
                version.bytes,
                len(version.partitions),
                len(version.files()),
                behind,
                tuple(complaint["reasons"]) if complaint else (),
                spec.inner,
            )
        )
    return found


def _changed(lake: Lake, table: str, since: int) -> bool:
    """A table of a newer relevo has changed, as far as one can tell."""
    try:
        return bool(lake.changes(table, since).keys)
    except LakeTooNew:
        return True
