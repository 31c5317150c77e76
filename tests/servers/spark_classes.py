"""Spark's classes, read and checked once for all JVMs of a test run.

A JVM spends half of its start on some ten thousand classes of Spark's jars. One that has run the pipeline once leaves them in
an archive ("class data sharing"), which every later JVM maps into its memory: a session starts with 6 instead of 10 seconds of
processor time. An archive that does not fit, of another Java or other jars, is left aside by the JVM.
"""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
    " -Dspark.sql.adaptive.enabled=false"
)
"""For `make test`: a query of some hundred rows is over before the code that Spark would write for it, its second plans
and the second compiler of the JVM have paid for themselves. `make test-all` runs with the defaults."""
_QUIETLY = "-Xlog:disable -Xlog:all=error:stderr"
"""A JVM says of every class that it cannot keep, and of every archive that does not fit, on the output that tests read."""

_TRIED_S = 300


def archive() -> Path:
    """Where the archive is, or would be: beside the jars it was made of."""
    return Path(sys.prefix) / f"spark-{version('pyspark')}.jsa"


def start_options(*, short_lived: bool) -> str:
    """What a JVM of Spark is started with, for `SPARK_SUBMIT_OPTS`."""
    shared = [f"-XX:SharedArchiveFile={archive()}", _QUIETLY] if archive().exists() else []
    return " ".join([*shared, *([SHORT_LIVED] if short_lived else [])])


def provide_archive() -> str:
    """Makes the archive unless there is one; says what happened."""
    made = archive()
    if made.exists():
        return "here already"
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        fresh = Path(folder) / made.name
        options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={fresh} {_QUIETLY}"
        try:
            run = subprocess.run(
                [sys.executable, "-m", "tests.servers.spark_classes", folder],
                env={**os.environ, "SPARK_SUBMIT_OPTS": options},
                capture_output=True,
                text=True,
                timeout=_TRIED_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"not made in {_TRIED_S} s: sessions start slower"
        if run.returncode != 0 or not fresh.exists():
            said = (run.stderr or run.stdout).strip().splitlines()
            return f"not made ({said[-1] if said else 'no word'}): sessions start slower"
        fresh.replace(made)
    return "made from a run of the pipeline"


def main() -> None:
    """Runs what most tests of Spark run: a few events through the lake, to a report, and a query that runs Python."""
    from pyspark import SparkContext

    from relevo.spark import Lake, build, ingest, session
    from tests.servers.server import EmbeddedValkey
    from tests.spark.connector.filled import add_events

    lake = Lake(Path(sys.argv[1]) / "lake")
    spark = session("local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    with EmbeddedValkey() as server:
        add_events(server.url, "warm", 40)
        ingest(lake, spark, url=server.url)
        build(lake, spark)
    spark.stop()
    # A JVM writes its archive when it ends, and pyspark's ends with its input.
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage] - there is no public way to its process
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
