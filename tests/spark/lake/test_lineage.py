"""What a build tells an OpenLineage server. No JVM here."""

import json
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from relevo.errors import BadArgument
from relevo.pipeline.commands.lineage import Lineage, events
from relevo.pipeline.commands.progress import Built, Step
from relevo.pipeline.lake.lake import Lake
from tests.support.command_line import call

BUILT = Built(
    (
        Step("gold.throughput", "built", 12, 1, 0.5, version=7, built_from={"silver.counts": 3}),
        Step("gold.usage", "unchanged", 4),
        Step("gold.slo", "broken", 2, reason="hour is there: not so for 2 rows", built_from={"silver.counts": 3}),
    ),
    2.0,
)


@contextmanager
def server(status: int = 201) -> Generator[tuple[str, list[tuple[str, str | None, Any]]]]:
    """A server that takes everything: its address, and what it was told as (path, key, event)."""
    told: list[tuple[str, str | None, Any]] = []

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.append((self.path, self.headers["Authorization"], json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
            pass

    made = HTTPServer(("127.0.0.1", 0), Taker)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}", told
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def test_every_table_of_a_build_is_a_run_with_the_versions_it_was_made_from(tmp_path: Path) -> None:
    with server() as (url, told):
        assert Lineage(url, "night", "secret").tell(Lake(tmp_path), BUILT) == len(told) == 6
    assert {(path, key) for path, key, _ in told} == {("/api/v1/lineage", "Bearer secret")}
    found = [event for _, _, event in told]
    assert [(event["job"]["name"], event["eventType"]) for event in found] == [
        ("relevo.build", "START"),
        ("relevo.build.gold.throughput", "START"),
        ("relevo.build.gold.throughput", "COMPLETE"),
        ("relevo.build.gold.slo", "START"),
        ("relevo.build.gold.slo", "FAIL"),
        ("relevo.build", "FAIL"),
    ]
    assert len({event["run"]["runId"] for event in found}) == 3
    done, failed = found[2], found[4]
    (made_from,), (made,) = done["inputs"], done["outputs"]
    assert (made_from["namespace"], made_from["name"]) == ("file", str(tmp_path / "silver/counts"))
    assert made_from["facets"]["version"]["datasetVersion"] == "3"
    assert made["facets"]["version"]["datasetVersion"] == "7"
    assert made["outputFacets"]["outputStatistics"]["rowCount"] == 12
    assert {"name": "backlog", "type": "bigint"}.items() <= made["facets"]["schema"]["fields"][-1].items()
    assert done["run"]["facets"]["parent"]["run"]["runId"] == found[0]["run"]["runId"]
    assert failed["run"]["facets"]["errorMessage"]["message"] == "hour is there: not so for 2 rows"
    assert all(event["job"]["namespace"] == "night" and event["eventTime"].endswith("+00:00") for event in found)


def test_a_table_in_a_bucket_is_named_by_the_bucket() -> None:
    (_, started, *_) = events(Lake("s3://data/lake"), BUILT, "relevo")
    assert [(one["namespace"], one["name"]) for one in started["inputs"]] == [("s3://data", "lake/silver/counts")]


@pytest.mark.parametrize("status", [500, None])
def test_a_server_that_is_away_or_refuses_is_logged_and_harms_nothing(
    status: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path)
    with caplog.at_level(logging.WARNING, "relevo.pipeline"):
        if status is None:
            with server() as (url, _):
                pass
            assert Lineage(url, key="secret").tell(lake, BUILT) == 0
        else:
            with server(status) as (url, told):
                assert Lineage(url, key="secret").tell(lake, BUILT) == 0
            assert len(told) == 1
    assert f"the lineage server {url} did not take an event" in caplog.text
    assert "secret" not in caplog.text
    assert "secret" not in repr(Lineage(url, key="secret"))


def test_an_address_with_a_password_is_refused_and_not_shown() -> None:
    for url in ("http://me:secret@127.0.0.1:5000", "ftp://me:secret@host"):
        with pytest.raises(BadArgument) as refused:
            Lineage(url)
        assert "secret" not in str(refused.value)


def test_an_address_that_is_not_http_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="no http address"):
        Lineage("file:///etc/passwd")
    lake = Lake(tmp_path)
    lake.log("bronze.events").create()
    said = call("pipeline", "build", "--lake", str(tmp_path), "--lineage", "ftp://host")
    assert (said.code, "no http address" in said.err) == (1, True)
