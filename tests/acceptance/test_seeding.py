"""The bench's millions of finished messages are as those that came over HTTP: read by the API, counted by the views."""

import contextlib
from urllib.error import HTTPError

import pytest

from benchmarks.work import seeding
from benchmarks.work.served import Served
from benchmarks.work.stores import Store

PATTERNS = 500


def test_seeded_messages_are_found_and_keep_their_keys() -> None:
    with contextlib.closing(Store("sqlite")) as store, contextlib.closing(Served(store)) as served:
        kinds = [{"labels": {"customer": f"c{n}"}} for n in range(PATTERNS)]
        for queue in ("live", "past"):
            served.queue(queue)
            served.load("batch", queue, connections=1, count=PATTERNS, size=500, attributes=kinds)
            served.load("drain", queue, connections=1, count=PATTERNS, size=500)
        served.stop()
        seeding.finished(served.database_url, "live", 2 * PATTERNS, ago_s=600, tell=print)
        seeding.archived(served.database_url, "past", 2 * PATTERNS, ago_s=600, tell=print)
        assert seeding.rows_of(served.database_url, "relevo_archive") == 2 * PATTERNS
        served.start()
        for queue, archived in (("live", 0), ("past", 2)):
            found = served.get(f"/v1/scopes/bench/messages?queue={queue}&label=customer%3Dc7")["data"]
            assert [each["archived_at"] is not None for each in found].count(True) == archived
            assert len({each["id"] for each in found}) == 3
            again = {"body": "another", "idempotency_key": found[-1]["idempotency_key"]}
            with pytest.raises(HTTPError, match="409"):
                served.post(f"/v1/scopes/bench/queues/{queue}/messages", again)
