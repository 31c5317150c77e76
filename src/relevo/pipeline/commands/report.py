"""The report command: gold as one HTML file. No Spark, no JVM: it answers in a second."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path

from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.report.figures import Figures, figures
from relevo.pipeline.report.page import page


def report(lake: Lake, to: Path, *, queues: Iterable[str] = (), days: int = 7, title: str = "Queue report") -> Figures:
    """Writes the page, whole or not at all, and returns its numbers."""
    lake.must_exist()
    told = figures(lake, queues=queues, days=days)
    to.parent.mkdir(parents=True, exist_ok=True)
    draft = to.with_name(f".{to.name}.{uuid.uuid4().hex[:8]}")
    draft.write_text(page(told, title=title), encoding="utf-8")
    os.replace(draft, to)  # noqa: PTH105 - a reader has the old page or the new one
    return told
