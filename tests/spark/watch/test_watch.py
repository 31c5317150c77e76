"""The watch as Spark runs it: state and timers in its store, a checkpoint to go on from, alerts as jobs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relevo.errors import WatchFailed
from relevo.pipeline.commands.watch import Told, Watch
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.watch.alert import Alert
from relevo.pipeline.watch.delivery import AlertQueue, Webhook
from relevo.pipeline.watch.rules import Rules, TimeLimit
from relevo.wire.envelope import Envelope
from relevo.wire.events import EventFields
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import encode_payload
from tests.servers.server import EmbeddedValkey, Server
from tests.spark.connector.filled import send
from tests.spark.watch.test_delivery import told as told_to
from tests.support.command_line import called

RULES = Rules(stuck=(TimeLimit("*", 900_000),), overdue=(TimeLimit("*", 900_000),))
"""So long that what is young at the start of a test is not old at its end."""
LONG_AGO_S = 1800


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def happen(server: Server, queue: str, word: str, job: str, ago_s: float = 0.0, **extras: int | str) -> None:
    key = QueueKeys(queue).events
    fields = EventFields(word, job, now_ms() - round(ago_s * 1000), "send", {"attempt": 1, **extras}).encode()
    send(server.url, key, [("XADD", key, "*", *fields)])


def wait_since(server: Server, queue: str, job: str, ago_s: float) -> None:
    """A job that waits in the stream, of which no event tells."""
    key = QueueKeys(queue).stream
    envelope = Envelope(job, encode_payload(1, "send"), now_ms()).encode()
    send(server.url, key, [("XADD", key, f"{now_ms() - round(ago_s * 1000)}-0", "d", envelope, "n", "send")])


def a_bad_day(server: Server) -> None:
    """Two jobs that run, one of them for too long; one that is done; two that wait, one of them for too long."""
    happen(server, "mail", "active", "long", ago_s=LONG_AGO_S)
    happen(server, "mail", "active", "done", ago_s=LONG_AGO_S)
    happen(server, "mail", "completed", "done", ago_s=LONG_AGO_S - 60, duration_us=5)
    happen(server, "mail", "active", "young")
    wait_since(server, "idle", "forgotten", ago_s=LONG_AGO_S)
    wait_since(server, "idle", "fresh", ago_s=0)


class Watched:
    """Watches of one server, one after the other on one checkpoint."""

    def __init__(self, spark: SparkSession, server: Server, folder: Path, **parts: Any) -> None:
        self.spark = spark
        self.server = server
        self.folder = folder
        self.parts = parts
        self._options = {"url": server.url, "source": "here"}

    def once(self) -> list[tuple[str, str, str, str]]:
        told: list[Alert] = []
        assert self._watch(told.extend).once(self._options) == len(told)
        return sorted((each.queue, each.job_id, each.kind, each.state) for each in told)

    def killed(self) -> None:
        """Dies after a batch's alerts are told, and before Spark writes down that the batch is over."""

        def die(_: object) -> None:
            raise OSError("the driver is gone")

        with pytest.raises(WatchFailed, match="the driver is gone"):
            self._watch(die).once(self._options)

    def _watch(self, told: Told) -> Watch:
        return Watch(self.spark, RULES, checkpoint=Storage.at(self.folder / "watch"), told=told, **self.parts)


def test_what_runs_or_waits_for_too_long_is_told_as_a_job(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedValkey() as server:
        a_bad_day(server)
        watched = Watched(spark, server, tmp_path, queue=AlertQueue(server.url, "alerts"))
        assert watched.once() == [("idle", "forgotten", "overdue", "open"), ("mail", "long", "stuck", "open")]
        assert sorted(data["job_id"] for _, data in told_to(server, "alerts")) == ["forgotten", "long"]


@pytest.mark.whole
def test_what_was_known_is_known_after_a_kill_and_every_alert_is_one_job(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedValkey() as server:
        a_bad_day(server)
        watched = Watched(spark, server, tmp_path, queue=AlertQueue(server.url, "alerts"))
        watched.killed()
        assert len(told_to(server, "alerts")) == 2
        happen(server, "mail", "completed", "long", duration_us=5)
        assert watched.once() == [  # the same batch, the same alerts; and then what happened since
            ("idle", "forgotten", "overdue", "open"),
            ("mail", "long", "stuck", "open"),
            ("mail", "long", "stuck", "over"),
        ]
        assert watched.once() == []
        states = sorted((data["job_id"], data["state"]) for _, data in told_to(server, "alerts"))
        assert states == [("forgotten", "open"), ("long", "open"), ("long", "over")]


@pytest.mark.whole
def test_a_webhook_that_is_away_stops_the_watch_and_gets_the_alert_later(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relevo.pipeline.watch.delivery._FIRST_PAUSE_S", 0.001)
    with EmbeddedValkey() as server:
        happen(server, "mail", "active", "long", ago_s=LONG_AGO_S)
        with pytest.raises(WatchFailed, match="did not take an alert"):
            Watched(spark, server, tmp_path, webhook=Webhook("http://127.0.0.1:1")).once()
        assert Watched(spark, server, tmp_path).once() == [("mail", "long", "stuck", "open")]


@pytest.mark.whole
def test_the_command_tells_alerts_as_lines(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # the command finds the session that runs
    with EmbeddedValkey() as server:
        happen(server, "mail", "active", "long", ago_s=LONG_AGO_S)
        options = ("pipeline", "watch", "--once", "--lake", str(tmp_path / "lake"), "--stuck", "mail=900")
        said = called(server, *options, "--json")
        assert (said.code, said.err) == (0, "")
        (line,) = said.out.splitlines()
        assert json.loads(line)["job_id"] == "long"
        happen(server, "mail", "completed", "long", duration_us=5)
        said = called(server, *options)
        assert "over: mail: job long is stuck" in said.out
        refused = called(server, *options, "--silent", "mail")
        assert (refused.code, "--silent" in refused.err) == (1, True)
