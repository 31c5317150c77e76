"""The folder of one session: all that Spark and its JVM write on the side lies in it, and goes when the process ends."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

_PATIENCE_S = 30.0  # with a JVM that has been told to end

_QUIET = """\
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


class Scratch:
    """Made when a session starts. `log` is where the JVM writes; one that nobody chose lies in the folder, too.

    >>> scratch = Scratch()
    >>> scratch.log.parent == scratch.folder
    True
    >>> scratch.clear(), scratch.folder.exists()
    (None, False)
    """

    def __init__(self, log: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="relevo-spark-"))
        self.aside = self.folder / "aside"
        """For blocks, shuffles, artifacts, and the native libraries that the JVM unpacks."""
        self.aside.mkdir()
        self.quiet = self.folder / "log4j2.properties"
        self.quiet.write_text(_QUIET)
        self.log = log or self.folder / "spark.log"
        self._keeps_log = False
        self._gateway: Any = None

    def keep_log(self) -> Path:
        """The log's path, to be told together with an error: whoever reads that must find the file."""
        self._keeps_log = True
        return self.log

    def clear_at_exit(self) -> None:
        """Once this process ends, and the JVM behind the gateway that `end_with` was told of."""
        atexit.register(self._end)

    def end_with(self, gateway: Any) -> None:
        """`gateway` is pyspark's way to the JVM, with the process in `proc`."""
        self._gateway = gateway

    def clear(self) -> None:
        """Deletes the folder, but for a log that was told."""
        if not self._keeps_log or self.log.parent != self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for entry in self.folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry != self.log:
                entry.unlink(missing_ok=True)

    def _end(self) -> None:
        """The JVM ends when its stdin does, and its Python workers with it; what they still write is waited for."""
        if self._gateway is not None:
            with suppress(Exception):
                _stop_listening()
            with suppress(Exception):
                self._gateway.shutdown()  # else py4j tells the JVM of every object that Python throws away at its very end
            with suppress(OSError, subprocess.TimeoutExpired):
                self._gateway.proc.communicate(timeout=_PATIENCE_S)
        self.clear()


def _stop_listening() -> None:
    """Ends the thread to which the JVM of a session that was not stopped tells its counts. Else it takes the JVM's end for an
    error, and a script that did all it was to do ends in a traceback."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage] - there is no public way to ask
    server = None if context is None else context._accumulatorServer
    if server is not None:
        server.shutdown()
