"""A Python for Spark's workers that refuses its first starts, as one that a busy machine does not get to in time."""

from __future__ import annotations

import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from relevo.pipeline.connector.source import RelevoSource

STREAM_READER = "python_streaming_source_runner"
"""Asks for offsets, once a query. Spark gives it ten seconds to connect, and nothing changes that."""

TASKS = "worker_daemon"
"""Where the processes of tasks and of planning come from."""

_PROGRAM = """#!/bin/sh
case "$*" in
*{module}*)
    echo start >> '{starts}'
    if [ "$(wc -l < '{starts}')" -le {refused} ]; then exit 1; fi
    ;;
esac
exec '{python}' "$@"
"""


class Refusing:
    """How often it was started is counted in a file."""

    def __init__(self, folder: Path, module: str, *, refused: int) -> None:
        self.program = folder / "python"
        self._starts = folder / "starts"
        text = _PROGRAM.format(module=module, starts=self._starts, refused=refused, python=sys.executable)
        self.program.write_text(text)
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    @property
    def starts(self) -> int:
        return len(self._starts.read_text().splitlines()) if self._starts.exists() else 0


@contextmanager
def refusing(spark: SparkSession, folder: Path, module: str, *, starts: int) -> Generator[Refusing]:
    """The data source's workers are that program, until the end."""
    python, usual = Refusing(folder, module, refused=starts), spark.sparkContext.pythonExec
    try:
        spark.sparkContext.pythonExec = str(python.program)
        spark.dataSource.register(RelevoSource)  # which takes the program along
        yield python
    finally:
        spark.sparkContext.pythonExec = usual
        spark.dataSource.register(RelevoSource)
