# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyarrow and deltalake come without types.
"""Upkeep of a lake: small files become large ones, files that were replaced go when nobody needs them, old days go on request.

All of it beside a running ingest and beside builds: merging moves rows and changes none, and what is deleted was removed from
the table (or never came into it) so long ago that no reader or writer can mean it. No Spark, no JVM.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from deltalake import CommitProperties, Transaction

from relevo.errors import LakeChanged
from relevo.pipeline.lake import files as parquet
from relevo.pipeline.lake.delta import CLEARED_MARK, NOTES_MARK, Commit
from relevo.pipeline.lake.instants import part_number
from relevo.pipeline.lake.lake import ERASED_AT, NOTES, Lake
from relevo.pipeline.lake.version import DataFile

TARGET_BYTES = 128 << 20
"""A file of this size is left alone."""
LEAST_FILES = 8
"""So many of about one size are merged: each row is then written again only when its file is an eighth of the next one."""
_SMALLEST = 1 << 20


@dataclass(frozen=True)
class Compacted:
    """How many files became how many."""

    before: int = 0
    after: int = 0
    bytes: int = 0


def compact(
    lake: Lake,
    table: str,
    *,
    sparing: Iterable[str] = (),
    least: int = LEAST_FILES,
    target_bytes: int = TARGET_BYTES,
) -> Compacted:
    """Merges small files of each partition. `sparing` names files that readers of this table have yet to take.

    When someone removes one of the files meanwhile, nothing is changed: the next time will do.
    """
    base, folder, spec = lake.table(table), lake.folder(table), lake.spec(table)
    spared, schema = set(sparing), lake.log(table).schema()
    small = [file for file in base.files() if file.bytes < target_bytes and file.path not in spared]
    before = after = size = 0
    for group in _groups(small, least, target_bytes):
        first, rows = group[0], sum(file.rows for file in group)
        paths = [file.path for file in group]
        part = part_number(first.key, spec.span)
        new = parquet.merged(folder, paths, part, first.day, spec.span, schema)
        assert new.rows == rows, (table, paths, new.rows, rows)
        made = DataFile(new.path, first.key, new.rows, new.bytes, first.day)
        merge = Commit((made,), {new.path: new.stats}, remove=tuple(group), moves_rows_only=True)
        try:
            lake.log(table).commit(merge, base)
        except LakeChanged:
            folder.delete([new.path])
            continue
        before, after, size = before + len(group), after + 1, size + new.bytes
    return Compacted(before, after, size)


def _groups(files: list[DataFile], least: int, target_bytes: int) -> list[list[DataFile]]:
    """Files to be merged: of one partition and about one size, together no larger than a file should be."""
    alike: dict[tuple[str, int | None, int], list[DataFile]] = {}
    for file in files:
        alike.setdefault((file.key, file.day, _tier(file.bytes, least)), []).append(file)
    groups: list[list[DataFile]] = []
    for those in alike.values():
        group, size = list[DataFile](), 0
        for file in sorted(those, key=lambda file: file.bytes):
            if group and size + file.bytes > target_bytes * 2:
                groups.append(group)
                group, size = [], 0
            group.append(file)
            size += file.bytes
        groups.append(group)
    return [group for group in groups if len(group) >= least]


def _tier(size: int, base: int) -> int:
    """
    >>> [_tier(size << 20, 8) for size in (0, 1, 7, 8, 63, 64)]
    [0, 0, 0, 1, 1, 2]
    """
    tier, limit = 0, _SMALLEST * base
    while size >= limit:
        tier, limit = tier + 1, limit * base
    return tier


def vacuum(lake: Lake, table: str, *, kept_days: float | None = None) -> int:
    """Deletes files that were removed from the table, or never came into it, more than `kept_days` ago (as the table says).

    After an erasure all files that were removed go at once: they may hold what was erased.
    """
    log, folder, spec = lake.log(table), lake.folder(table), lake.spec(table)
    opened = log.opened()
    if opened is None:
        return 0
    days = spec.kept_days if kept_days is None else kept_days
    gone = 0
    erased_at = int(lake.notes("bronze.messages").get(ERASED_AT, 0))
    if erased_at > (opened.transaction_version(CLEARED_MARK) or 0):
        # The mark comes with the commit that vacuum writes.
        cleared = CommitProperties(app_transactions=[Transaction(CLEARED_MARK, erased_at)])
        gone += len(opened.vacuum(0, dry_run=False, enforce_retention_duration=False, commit_properties=cleared))
        opened.update_incremental()
    hours = int(days * 24)
    if opened.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True):
        gone += len(opened.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True))
    current, old = lake.table(table).marks.get(NOTES_MARK), time.time() - days * 86_400
    gone_notes = [
        entry.path
        for entry in folder.entries(NOTES)
        if entry.path != f"{NOTES}/{current}.json" and entry.written_s < old
    ]
    folder.delete(gone_notes)
    return gone


def expire(lake: Lake, table: str, before_day: int) -> int:
    """Removes the partitions of days before `before_day` (since 1970); returns how many rows went.

    What was made of them stays."""
    base, spec = lake.table(table), lake.spec(table)
    hours = 24 if spec.span == "hour" else 1
    old = tuple(
        file for file in base.files() if spec.span != "all" and part_number(file.key, spec.span) < before_day * hours
    )
    if old:
        lake.log(table).commit(Commit(remove=old, expires=True), base)
    return sum(file.rows for file in old)
