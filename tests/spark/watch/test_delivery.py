"""Where alerts go, without a JVM: a queue on a real server, a webhook that is a real one."""

import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from relevo.errors import AlertNotDelivered, BadArgument
from relevo.pipeline.watch import delivery
from relevo.pipeline.watch.alert import Alert, alert_id
from relevo.pipeline.watch.delivery import AlertQueue, Webhook
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import decode_payload
from tests.servers.server import Server
from tests.spark.connector.filled import send


def alert(job: str, state: Any = "open") -> Alert:
    known = alert_id("stuck", "here", "mail", job, 1000)
    return Alert(known, "stuck", state, "here", "mail", job, "send", 1000, 90_000, 60_000, "it runs for 89 s")


def told(server: Server, queue: str) -> list[tuple[str, dict[str, Any]]]:
    key = QueueKeys(queue).stream
    (entries,) = cast("list[Any]", send(server.url, key, [("XRANGE", key, "-", "+")]))
    envelopes = [Envelope.decode(dict(zip(fields[::2], fields[1::2], strict=True))[b"d"]) for _, fields in entries]
    return [(each.id, decode_payload(each.payload)) for each in envelopes]


def test_alerts_are_jobs_and_telling_them_again_adds_none(server: Server, queue_name: str) -> None:
    alerts = [alert("a"), alert("b"), alert("a", "over")]
    queue = AlertQueue(server.url, queue_name)
    for batch in range(2):  # in whatever batch they come again
        queue.send(alerts[:2], "w", batch)
    queue.send(alerts, "w", 2)
    added = told(server, queue_name)
    jobs = dict(added)
    assert sorted(key for key, _ in added) == sorted(each.told_id for each in alerts)
    assert jobs[alerts[0].told_id] == {
        "alert_id": alerts[0].alert_id,
        "kind": "stuck",
        "state": "open",
        "source": "here",
        "queue": "mail",
        "job_id": "a",
        "name": "send",
        "limit_ms": 60_000,
        "detail": "it runs for 89 s",
        "since": "1970-01-01T00:00:01Z",
        "at": "1970-01-01T00:01:30Z",
    }


class Receiver:
    """A webhook that answers what it is told to answer."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.heard: list[tuple[str, str | None, dict[str, Any]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                receiver.heard.append((self.headers["idempotency-key"], self.headers["authorization"], body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name is given
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/alerts"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Generator[Receiver]:
    monkeypatch.setattr(delivery, "_FIRST_PAUSE_S", 0.001)
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def test_a_webhook_gets_alerts_in_order_and_again_until_it_takes_them(receiver: Receiver) -> None:
    receiver.answers = [500, 503]
    alerts = [alert("a"), alert("b")]
    Webhook(receiver.url, "s3cret").send(alerts)
    first, second = (each.told_id for each in alerts)
    assert [key for key, _, _ in receiver.heard] == [first, first, first, second]
    assert receiver.heard[-1][1:] == ("Bearer s3cret", alerts[1].document())


def test_a_webhook_that_never_takes_it_is_told(receiver: Receiver) -> None:
    receiver.answers = [500] * 9
    with pytest.raises(AlertNotDelivered, match="it answered 500"):
        Webhook(receiver.url).send([alert("a")])
    assert len(receiver.heard) == 5


def test_a_webhook_shows_no_token_and_speaks_http() -> None:
    assert "s3cret" not in repr(Webhook("http://127.0.0.1", "s3cret"))
    with pytest.raises(BadArgument, match="--webhook"):
        Webhook("ftp://127.0.0.1")
