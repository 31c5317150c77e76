"""Renewing tables: stage one, check it, make it visible or keep the last good version; tell; and several at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from relevo.errors import TableBroken
from relevo.pipeline.commands.progress import Step, Tell, nobody
from relevo.pipeline.lake.delta import source_mark
from relevo.pipeline.lake.examination import examined, without_dropped
from relevo.pipeline.lake.expectations import Finding
from relevo.pipeline.lake.lake import Lake, Staged
from relevo.pipeline.lake.results import Checked, now_ms
from relevo.pipeline.lake.tables import ALL

_AT_ONCE = 3
_log = logging.getLogger("relevo.pipeline")


class Renewal:
    """The renewals of one build. A table that is broken stops what is built from it, and nothing else."""

    def __init__(self, lake: Lake, spark: SparkSession, tell: Tell = nobody) -> None:
        self.lake = lake
        self.spark = spark
        self.steps: list[Step] = []
        self.checked: list[Checked] = []
        """What was found of the expectations of the tables so far."""
        self._tell = tell
        self._broken: set[str] = set()
        self._bases = {spec.name: lake.table(spec.name) for spec in ALL}
        """What the tables were when this build began: who changed them since wins, and this build is told."""
        self._one_speaks = threading.Lock()

    def at_once(self, *renewals: Callable[[], None]) -> None:
        """Renewals that need nothing of each other. Most of a small one is Spark planning it, which leaves cores idle."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="relevo-renewal") as threads:
            under_way = [threads.submit(renewal) for renewal in renewals]
        for each in under_way:
            each.result()

    def stopped(self, table: str, *sources: str) -> bool:
        """Whether a source of this table is broken; then it is told as skipped."""
        bad = sorted(self._broken & set(sources))
        if bad:
            self._broken.add(table)
            self._say(Step(table, "skipped", reason=f"{', '.join(bad)} could not be renewed"))
        return bool(bad)

    def refused(self, table: str, reason: str) -> None:
        """For a table that could not even be staged: it is broken as one that breaks its expectations."""
        error = self.lake.refuse(Staged(self.lake.spec(table)), [reason])
        self._broken.add(table)
        self._say(Step(table, "broken", reason=str(error)))

    def unchanged(self, *tables: str) -> None:
        for table in tables:
            self._say(Step(table, "unchanged", rows=self.lake.table(table).rows))

    def renew(
        self,
        table: str,
        stage: Callable[[], Staged],
        *,
        instead: bool = True,
        built_from: dict[str, int] | None = None,
        notes: dict[str, Any] | None = None,
        also: Callable[[Staged], Iterable[str]] | None = None,
    ) -> bool:
        """True when the new version is visible. `also` gives further reasons why it must not be."""
        began = time.monotonic()
        base = self._bases.get(table) or self.lake.table(table, *map(source_mark, built_from or {}))
        self._say(Step(table, "began"))
        staged = stage()
        findings = self._examined(staged)
        failed = [finding for finding in findings if finding.outcome == "failed"]
        reasons = [str(finding) for finding in failed]
        if not failed and any(finding.outcome == "dropped" for finding in findings):
            rules = staged.spec.rules
            staged = self.lake.stage_again(staged, self.spark, lambda rows: without_dropped(rows, rules))
        if also is not None and not reasons:
            reasons += also(staged)
            findings += (Finding(reason, "fail", staged.rows, staged.rows) for reason in reasons)
        if reasons:
            taken = time.monotonic() - began
            error: TableBroken = self.lake.refuse(staged, reasons)
            self._broken.add(table)
            self._note(table, base.version, findings)
            self._say(
                Step(table, "broken", staged.rows, len(staged.files), taken, str(error), built_from=built_from or {})
            )
            return False
        self._bases[table] = self.lake.commit(staged, instead=instead, built_from=built_from, notes=notes, base=base)
        version = self._bases[table].version
        self._say(
            Step(
                table,
                "built",
                staged.rows,
                len(staged.files),
                time.monotonic() - began,
                version=version,
                built_from=built_from or {},
                warnings=self._note(table, version, findings),
            )
        )
        return True

    def _examined(self, staged: Staged) -> list[Finding]:
        if not staged.rows or not staged.spec.rules:
            return []
        rows = self.lake.frame(self.spark, staged.spec.name, staged.paths, staged.schema)
        return examined(rows, staged.spec.rules, staged.rows)

    def _note(self, table: str, version: int, findings: list[Finding]) -> tuple[str, ...]:
        """Keeps findings for gold.expectations; returns and logs those that did not stop the table."""
        said = tuple(
            f"{finding} ({finding.outcome})" for finding in findings if finding.outcome in ("warned", "dropped")
        )
        for text in said:
            _log.warning("%s: %s", table, text)
        with self._one_speaks:
            self.checked.append(Checked(table, version, tuple(findings), now_ms()))
        return said

    def _say(self, step: Step) -> None:
        with self._one_speaks:
            if step.state != "began":
                self.steps.append(step)
            self._tell(step)
