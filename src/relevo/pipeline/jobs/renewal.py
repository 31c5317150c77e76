"""Renewing tables: stage one, check it, make it visible or keep the last good version; tell; and several at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from relevo.errors import TableBroken
from relevo.pipeline.jobs.progress import Step, Tell, nobody
from relevo.pipeline.lake.expectations import breaches
from relevo.pipeline.lake.lake import Lake, Staged
from relevo.pipeline.lake.tables import ALL

_AT_ONCE = 3


class Renewal:
    """The renewals of one build. A table that is broken stops what is built from it, and nothing else."""

    def __init__(self, lake: Lake, spark: SparkSession, tell: Tell = nobody) -> None:
        self.lake = lake
        self.spark = spark
        self.steps: list[Step] = []
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
        self._say(Step(table, "began"))
        staged = stage()
        reasons: list[str] = []
        if staged.rows and staged.spec.rules:
            rows = self.lake.frame(self.spark, table, staged.paths)
            reasons = [str(breach) for breach in breaches(rows, staged.spec.rules, staged.rows)]
        if also is not None and not reasons:
            reasons += also(staged)
        taken = time.monotonic()
        if reasons:
            error: TableBroken = self.lake.refuse(staged, reasons)
            self._broken.add(table)
            self._say(Step(table, "broken", staged.rows, len(staged.files), taken - began, str(error)))
            return False
        self._bases[table] = self.lake.commit(
            staged, instead=instead, built_from=built_from, notes=notes, base=self._bases[table]
        )
        self._say(Step(table, "built", staged.rows, len(staged.files), time.monotonic() - began))
        return True

    def _say(self, step: Step) -> None:
        with self._one_speaks:
            if step.state != "began":
                self.steps.append(step)
            self._tell(step)
