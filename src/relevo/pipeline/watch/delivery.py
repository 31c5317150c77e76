"""Where alerts go: jobs of a queue, and a webhook.

A job has the alert's id, so that telling it again adds nothing. A webhook may be called twice, when the driver dies right
behind the call: `Idempotency-Key` is the same then.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from relevo.errors import AlertNotDelivered, BadArgument
from relevo.pipeline.connector.options import SinkOptions
from relevo.pipeline.connector.sink import feed
from relevo.pipeline.watch.alert import Alert

log = logging.getLogger("relevo.pipeline")

_COLUMNS = StructType([StructField(name, StringType()) for name in ("name", "data", "job_id")])
_ID_WINDOW_S = 30 * 86_400
_TRIES = 5
_FIRST_PAUSE_S = 0.5


@dataclass(frozen=True)
class AlertQueue:
    """A stream queue whose jobs are alerts: the name is the kind, the data is the document."""

    url: str
    queue: str

    def send(self, alerts: Sequence[Alert], write: str, batch: int) -> None:
        """Adds those that are not there yet."""
        sink = SinkOptions.parse({"url": self.url, "queue": self.queue, "idWindowSeconds": str(_ID_WINDOW_S)})
        rows = {
            "name": [alert.kind for alert in alerts],
            "data": [json.dumps(alert.document()) for alert in alerts],
            "job_id": [alert.told_id for alert in alerts],
        }
        batches: list[Any] = [pa.RecordBatch.from_pydict(rows)]  # pyright: ignore[reportUnknownMemberType]
        feed(sink, _COLUMNS, iter(batches), write=write, epoch=batch)


@dataclass(frozen=True)
class Webhook:
    """An address that every alert is posted to as JSON, in order."""

    url: str
    token: str | None = None
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            remedy = "Write an address that begins with http:// or https://."
            raise BadArgument(argument="--webhook", value=self.url, reason="not one of HTTP", remedy=remedy)

    def __repr__(self) -> str:
        return f"Webhook({self.url!r})"  # never the token

    def send(self, alerts: Sequence[Alert]) -> None:
        """Posts each until it is taken: what cannot be told is not over."""
        for alert in alerts:
            self._post(alert)

    def _post(self, alert: Alert) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert.told_id}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        body, pause = json.dumps(alert.document()).encode(), _FIRST_PAUSE_S
        for left in reversed(range(_TRIES)):
            try:
                request = urllib.request.Request(self.url, body, headers)  # noqa: S310 - looked at above
                with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:  # noqa: S310
                    answer.read()
            except (URLError, OSError) as error:
                reason = f"it answered {error.code}" if isinstance(error, HTTPError) else str(error)
                if not left:
                    raise AlertNotDelivered(url=self.url, reason=reason, tries=_TRIES) from error
                log.warning("the webhook %s did not take alert %s: %s", self.url, alert.alert_id, reason)
                time.sleep(pause)
                pause *= 2
            else:
                return
