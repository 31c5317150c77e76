"""Streaming queries of tests, run to their end."""

import math
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

from relevo.pipeline.commands.tries import Tries
from tests.pace import limit


def finish(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Runs a query to its end, as patient with a busy machine as an ingest is."""

    def run() -> StreamingQuery:
        query = start()
        assert query.awaitTermination(math.ceil(limit(120)))
        return query

    return Tries().run(run, "the query")
