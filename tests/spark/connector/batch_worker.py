"""A streaming query that consumes a queue, in a process of its own, to be killed.

The handler counts its runs of each job in a hash beside the queue. The query ends when the queue is empty.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relevo.broker.address import Address
from relevo.pipeline.commands.tries import Tries
from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.session import session

BATCH = 100
LEASE_S = 3


def counted(url: str, runs: bytes) -> Any:
    """A handler for mapInPandas. Every tenth job fails the first time."""

    def handle(parts: Iterator[Any]) -> Iterator[Any]:
        directory = Directory(Address.parse(url), timeout_s=30)
        for jobs in parts:
            commands = [("HINCRBY", runs, job_id, 1) for job_id in jobs["job_id"]]
            directory.connection(runs).pipeline(commands)
            failed = (jobs["attempt"] == 0) & (jobs["data"].astype(int) % 10 == 0)
            yield jobs.assign(error=failed.map({True: "not yet", False: None}))[["_id", "_taken_by", "error"]]
        directory.close()

    return handle


def consume(url: str, queue: str, runs: str, folder: Path) -> None:
    settings = {"spark.driver.memory": "1g", "spark.sql.execution.arrow.maxRecordsPerBatch": "20"}
    spark = session("local[2]", log=folder / "spark.log", settings=settings)
    options = {"url": url, "queue": queue}
    taken = {"mode": "consume", "maxRowsPerTrigger": str(BATCH), "rowsPerPartition": "25", "leaseSeconds": str(LEASE_S)}
    jobs = spark.readStream.format("relevo").options(**options, **taken).load()
    said = jobs.mapInPandas(counted(url, runs.encode()), "_id string, _taken_by string, error string")
    settling = said.writeStream.format("relevo").options(**options, mode="settle")
    query = settling.option("checkpointLocation", str(folder / "checkpoint"))
    sys.stdout.write("running\n")
    sys.stdout.flush()
    Tries().run(lambda: query.start().awaitTermination(), "the query")  # as patient with a busy machine as an ingest is


if __name__ == "__main__":
    url, queue, runs, folder = sys.argv[1:]
    consume(url, queue, runs, Path(folder))
