"""Where Spark's Python workers come from: a process that has imported what they need, and is forked for each of them.

Spark's own has imported nothing of ours, so every worker, and every query that is planned, spends half a second of a core on
imports. `relevo.pipeline.session` names this one (`spark.python.daemon.module`) for sessions on this machine.

A worker of Spark's collects garbage after every task, and walks through all that was ever imported: 40 ms of a core. What is
here before the first fork is kept out of that.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager
from pyspark.sql.streaming import python_streaming_source_runner
from pyspark.sql.worker import plan_data_source_read

from relevo.pipeline.connector import source

PRELOADED = (python_streaming_source_runner, plan_data_source_read, source)

if __name__ == "__main__":
    gc.freeze()
    manager()
