"""Every second: the search table learns of messages that are new, or are found by something else by now.

A batch takes its part of the feed and writes the table in one transaction: whoever is killed in the middle of it has done
nothing, and two at once do it once. What is read for it is read before, so that nobody waits for that.
"""

from __future__ import annotations

from relevo.agents.agent import Batch
from relevo.work.store.search_index import read_feed, write_fed
from relevo.work.work_queues import WorkQueues


class SearchIndexer:
    """Writes the entries of up to `batch` messages in one transaction, in the order of the table."""

    name = "search_indexer"
    every_s = 1.0
    about = "writes what messages are found by into the search table"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 5_000) -> None:
        self._database = work_queues.database
        self._batch = batch

    async def work(self) -> Batch:
        async with self._database.connect() as connection:
            fed = await read_feed(connection, self._batch)
        if fed is None:
            return Batch(0)
        async with self._database.begin() as connection:
            await write_fed(connection, self._database.dialect, fed)
        return Batch(fed.count, more=fed.count >= self._batch)
