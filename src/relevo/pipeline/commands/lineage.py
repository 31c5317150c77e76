"""OpenLineage: tells a server what each table of a build was made from, as run events over HTTP.

A build is a run, and the renewal of each table a run of its own within it: inputs and outputs are datasets with the versions of
their Delta tables. The server is told after the build; one that is away is logged and harms nothing.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from relevo.errors import BadArgument
from relevo.pipeline.commands.progress import Built, Step
from relevo.pipeline.lake.lake import Lake

PRODUCER = "urn:relevo"
_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_BUILD = "relevo.build"

log = logging.getLogger("relevo.pipeline")

Event = dict[str, Any]


@dataclass(frozen=True)
class Lineage:
    """Where run events go: `url` is the server's, `endpoint` the path below it, `key` is sent as a bearer token."""

    url: str
    namespace: str = "relevo"
    key: str | None = field(default=None, repr=False)
    endpoint: str = "api/v1/lineage"
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        shown = f"{address.scheme}://{address.netloc.rpartition('@')[2]}"  # without a password
        if address.scheme not in ("http", "https"):
            remedy = "Name the server's address, such as http://127.0.0.1:5000."
            raise BadArgument(argument="lineage", value=shown, reason="this is no http address", remedy=remedy)
        if "@" in address.netloc:
            remedy = "Leave out what stands before the @, and set OPENLINEAGE_API_KEY."
            raise BadArgument(argument="lineage", value=shown, reason="it holds a name or a password", remedy=remedy)

    def tell(self, lake: Lake, built: Built) -> int:
        """Sends the events of a build; returns how many arrived. The first that does not is the last that is tried."""
        sent = 0
        for event in events(lake, built, self.namespace):
            try:
                self._send(event)
            except (URLError, OSError, ValueError) as error:
                log.warning("the lineage server %s did not take an event: %s", self.url, error)
                break
            sent += 1
        return sent

    def _send(self, event: Event) -> None:
        token = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        address = f"{self.url.rstrip('/')}/{self.endpoint.lstrip('/')}"
        body = json.dumps(event).encode()
        request = urllib.request.Request(address, body, {"Content-Type": "application/json", **token})  # noqa: S310 - looked at above
        with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:  # noqa: S310
            answer.read()


def events(lake: Lake, built: Built, namespace: str) -> Iterator[Event]:
    """The run events of a build: a start and an end for the build itself and for each table it renewed or could not renew."""
    end_ms = time.time_ns() // 1_000_000
    begin_ms = end_ms - round(built.seconds * 1000)
    run = str(uuid.uuid4())
    tried = [step for step in built.steps if step.state in ("built", "broken")]
    yield _event("START", begin_ms, run, namespace, _BUILD)
    for step in tried:
        mine, job = str(uuid.uuid4()), f"{_BUILD}.{step.table}"
        facets = {"parent": _facet("1-1-0/ParentRunFacet", run={"runId": run}, job=_job(namespace, _BUILD))}
        inputs = [_dataset(lake, table, version) for table, version in sorted(step.built_from.items())]
        yield _event("START", begin_ms, mine, namespace, job, facets, inputs)
        if step.state == "built":
            yield _event("COMPLETE", end_ms, mine, namespace, job, facets, inputs, [_output(lake, step)])
        else:
            said = _facet("1-0-1/ErrorMessageRunFacet", message=step.reason, programmingLanguage="PYTHON")
            yield _event("FAIL", end_ms, mine, namespace, job, {**facets, "errorMessage": said}, inputs)
    yield _event("FAIL" if built.broken else "COMPLETE", end_ms, run, namespace, _BUILD)


def _event(
    kind: str,
    at_ms: int,
    run: str,
    namespace: str,
    job: str,
    facets: Event | None = None,
    inputs: list[Event] | None = None,
    outputs: list[Event] | None = None,
) -> Event:
    return {
        "eventType": kind,
        "eventTime": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "run": {"runId": run, "facets": facets or {}},
        "job": _job(namespace, job),
        "inputs": inputs or [],
        "outputs": outputs or [],
        "producer": PRODUCER,
        "schemaURL": _EVENT,
    }


def _job(namespace: str, name: str) -> Event:
    return {"namespace": namespace, "name": name}


def _dataset(lake: Lake, table: str, version: int) -> Event:
    """A table by the names that OpenLineage gives to files: `file` and a path, or the bucket and what is below it."""
    uri = lake.folder(table).uri
    scheme, found, rest = uri.partition("://")
    host, _, path = rest.partition("/")
    namespace, name = (f"{scheme}://{host}", path) if found else ("file", uri)
    columns = [
        {"name": column.name, "type": column.type, "description": column.holds} for column in lake.spec(table).columns
    ]
    facets = {
        "version": _facet("1-0-1/DatasetVersionDatasetFacet", datasetVersion=str(version)),
        **({"schema": _facet("1-1-1/SchemaDatasetFacet", fields=columns)} if columns else {}),
    }
    return {"namespace": namespace, "name": name, "facets": facets}


def _output(lake: Lake, step: Step) -> Event:
    told = _facet("1-0-2/OutputStatisticsOutputDatasetFacet", rowCount=step.rows)
    return {**_dataset(lake, step.table, step.version), "outputFacets": {"outputStatistics": told}}


def _facet(schema: str, **fields: Any) -> Event:
    name = schema.rpartition("/")[2]
    return {"_producer": PRODUCER, "_schemaURL": f"{_SPEC}/facets/{schema}.json#/$defs/{name}", **fields}
