"""The options of the data source, read once and checked: a wrong one is named before anything runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, cast

from relevo.broker.address import Address
from relevo.errors import BadArgument
from relevo.pipeline.connector.offsets import EntryId, last_of
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.source_columns import LANDED, TABLES, Column
from relevo.wire.keys import QueueKeys
from relevo.wire.limits import QueueLimits

What = Literal["events", "stream", "dlq", "delayed"]
Place: TypeAlias = Literal["earliest", "latest"] | datetime | EntryId
Position: TypeAlias = Place | Mapping[str, Place]
"""One place for all streams, or one for each stream that is named."""

_CONNECTION = ("url", "urlEnv", "urlFile", "usernameEnv", "passwordEnv", "passwordFile", "timeoutSeconds")
_SOURCE = (
    *("queues", "what", "payload", "startingOffsets", "endingOffsets", "maxRowsPerTrigger", "failOnDataLoss"),
    *("rowsPerPartition", "pageRows", "landing", "source", "minRowsPerTrigger", "maxTriggerDelaySeconds"),
    "readFrom",
)
_SINK = ("queue", "writeId", "maxStreamLen", "fullTimeoutSeconds", "idWindowSeconds", "maxPayloadBytes", "dataFormat")
_SPARK = ("path", "checkpointLocation", "queryName", "outputMode")  # Spark hands its own on
_CATALOG = "provider"
"""What only a `CREATE TABLE` says."""


@dataclass(frozen=True)
class ConnectionOptions:
    """Where Redis is. Secrets come from the environment or a file of the driver and travel inside pickled readers only."""

    url: str
    username: str | None = None
    password: str | None = None
    timeout_s: float = 30.0

    def address(self) -> Address:
        address = Address.parse(self.url)
        if self.username is not None or self.password is not None:
            address = replace(
                address, username=self.username or address.username, password=self.password or address.password
            )
        return address

    def __repr__(self) -> str:
        return f"ConnectionOptions({Address.parse(self.url)!s})"


@dataclass(frozen=True)
class SourceOptions:
    """What to read, from where to where."""

    connection: ConnectionOptions
    queues: tuple[str, ...]
    what: What = "events"
    raw_payload: bool = False
    starting: Position = "earliest"
    ending: Position = "latest"
    max_rows: int | None = None
    fail_on_data_loss: bool = True
    rows_per_partition: int = 250_000
    page_rows: int = 2500
    landing: str | None = None
    """The folder that tasks write Parquet into, instead of handing out rows."""
    given_source: str = ""
    min_rows: int | None = None
    """A micro-batch waits for so many rows, but no longer than `max_delay_s`."""
    max_delay_s: float = 900.0
    read_from: Literal["master", "replica"] = "master"
    """Which servers the tasks read; the plan is always the master's."""

    @property
    def source(self) -> str:
        """What this server is called in rows, offsets and tables: the name that was given, else where it is.

        >>> SourceOptions(ConnectionOptions("redis://:secret@10.0.0.7:6380/2"), ("a",)).source
        '10.0.0.7:6380/2'
        """
        return self.given_source or _named(self.connection.address())

    @property
    def columns(self) -> tuple[Column, ...]:
        return TABLES[self.what] if self.landing is None else LANDED

    def key(self, queue: str) -> str:
        """The Redis key that is read for one queue, or for a glob of them.

        >>> SourceOptions(ConnectionOptions("redis://localhost"), ("a",)).key("a")
        '{chasqui:a}:events'
        """
        keys = QueueKeys(queue)
        found = {"events": keys.events, "stream": keys.stream, "dlq": keys.dead, "delayed": keys.delayed}
        return found[self.what].decode()

    @staticmethod
    def parse(options: Mapping[str, str]) -> SourceOptions:
        given = Given(options, (*_CONNECTION, *_SOURCE))
        names = tuple(name.strip() for name in given.text("queues", "*").split(",") if name.strip())
        if not names:
            raise given.bad(
                "queues", "no queue is named", "Write one, some separated by commas, or a glob such as mail-*."
            )
        what = given.one_of("what", tuple(TABLES))
        source = SourceOptions(
            connection=connection_of(given),
            queues=names,
            what=cast("What", what),
            raw_payload=given.one_of("payload", ("json", "raw")) == "raw",
            max_rows=given.number("maxRowsPerTrigger"),
            fail_on_data_loss=given.one_of("failOnDataLoss", ("true", "false")) == "true",
            rows_per_partition=given.number("rowsPerPartition") or 250_000,
            page_rows=given.number("pageRows") or 2500,
            given_source=given.text("source", "").strip(),
            min_rows=given.number("minRowsPerTrigger"),
            max_delay_s=float(given.number("maxTriggerDelaySeconds") or 900),
            read_from=cast("Literal['master', 'replica']", given.one_of("readFrom", ("master", "replica"))),
        )
        if source.read_from == "replica" and source.connection.address().kind == "single":
            reason = "only a cluster and sentinels tell where replicas are"
            remedy = "Give the replica's own address as url, and with the option source the name of its master."
            raise given.bad("readFrom", reason, remedy)
        if source.min_rows is not None and source.max_rows is not None and source.min_rows > source.max_rows:
            raise given.bad(
                "minRowsPerTrigger",
                f"it is more than maxRowsPerTrigger ({source.max_rows})",
                "Write less, or leave it out.",
            )
        if landing := given.text("landing", ""):
            if what != "events":
                raise given.bad("landing", f"it is for events, not for what={what}", "Read rows, and write those.")
            source = replace(source, landing=Storage.at(landing).uri)
        return replace(
            source,
            starting=_position(given, "startingOffsets", "earliest", source),
            ending=_position(given, "endingOffsets", "latest", source),
        )


@dataclass(frozen=True)
class SinkOptions:
    """Where rows go, and how patient the sink is."""

    connection: ConnectionOptions
    queue: str
    write_id: str | None = None
    cap: int = QueueLimits.max_stream_len
    full_timeout_s: float = 600.0
    id_window_s: int = 3600
    max_payload: int = 1_048_576
    data_format: Literal["json", "text"] = "json"

    @staticmethod
    def parse(options: Mapping[str, str], *, queue_by_row: bool = False) -> SinkOptions:
        given = Given(options, (*_CONNECTION, *_SINK))
        queue = given.text("queue", "")
        if not queue and not queue_by_row:
            remedy = 'Write .option("queue", "emails"), or give the rows a column `queue`.'
            raise given.bad("queue", "rows need a queue to go to", remedy)
        return SinkOptions(
            connection=connection_of(given),
            queue=queue,
            write_id=given.text("writeId", "") or None,
            cap=given.number("maxStreamLen") or QueueLimits.max_stream_len,
            full_timeout_s=float(given.number("fullTimeoutSeconds") or 600),
            id_window_s=given.number("idWindowSeconds") or 3600,
            max_payload=given.number("maxPayloadBytes") or 1_048_576,
            data_format=cast("Literal['json', 'text']", given.one_of("dataFormat", ("json", "text"))),
        )


class Given:
    """The options as Spark hands them over: keys in any case, values as text."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {key.lower(): value for key, value in options.items()}
        if _CATALOG in self._values:
            reason = (
                "Spark hands the options of a table in its catalog to no reader and no writer of a Python data source"
            )
            remedy = "Write CREATE TEMPORARY VIEW ... USING relevo OPTIONS (...), and write with df.write.format."
            raise BadArgument(argument="CREATE TABLE", value="USING relevo", reason=reason, remedy=remedy)
        names = {name.lower() for name in (*known, *_SPARK)}
        for key in self._values:
            if key not in names:
                raise BadArgument(
                    argument="option",
                    value=key,
                    reason="there is none of that name",
                    remedy=f"There are: {', '.join(known)}.",
                )

    def text(self, name: str, default: str) -> str:
        return self._values.get(name.lower(), default)

    def number(self, name: str) -> int | None:
        text = self._values.get(name.lower())
        if text is None:
            return None
        if not (text.isdecimal() and text.isascii() and 0 < int(text) < 1 << 62):
            raise self.bad(name, "not a whole number above 0", "Write digits only.")
        return int(text)

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words; the first is the default."""
        text = self.text(name, choices[0]).lower()
        if text not in choices:
            raise self.bad(name, "unknown", f"Write {' or '.join(choices)}.")
        return text

    def bad(self, name: str, reason: str, remedy: str) -> BadArgument:
        return BadArgument(argument=name, value=self._values.get(name.lower()), reason=reason, remedy=remedy)


def connection_names() -> tuple[str, ...]:
    """The options that say where Redis is."""
    return _CONNECTION


def connection_of(given: Given) -> ConnectionOptions:
    url = given.text("url", "") or secret_of(given, "urlEnv", "urlFile") or os.environ.get("RELEVO_REDIS_URL", "")
    connection = ConnectionOptions(
        url=url or "redis://127.0.0.1:6379",
        username=secret_of(given, "usernameEnv", ""),
        password=secret_of(given, "passwordEnv", "passwordFile"),
        timeout_s=float(given.number("timeoutSeconds") or 30),
    )
    connection.address()  # a URL that cannot be used is told now, not by a task
    return connection


def secret_of(given: Given, env: str, file: str) -> str | None:
    if name := given.text(env, ""):
        if name not in os.environ:
            reason = f"the environment of the driver's JVM has no {name}"
            raise given.bad(env, reason, "Set it before the Spark session starts, or use a file.")
        return os.environ[name]
    if path := given.text(file, "") if file else "":
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise given.bad(
                file, f"it cannot be read ({error.strerror})", "It is read on the driver's machine."
            ) from error
    return None


def _position(given: Given, name: str, default: str, source: SourceOptions) -> Position:
    text = given.text(name, default).strip()
    if not text.startswith("{"):
        return _place(given, name, text, entries=False)
    try:
        plain = cast("dict[str, object]", json.loads(text))
    except ValueError as error:
        raise given.bad(name, f"not JSON ({error})", _PLACES) from error
    found: dict[str, Place] = {}
    for queue, place in plain.items():
        if not isinstance(place, str):
            raise given.bad(name, f"the place of {queue} is no text", _PLACES)
        found[queue if queue.startswith("{") else source.key(queue)] = _place(given, name, place.strip(), entries=True)
    return found


_PLACES = (
    'Write earliest, latest, a time such as 2026-11-01T00:00:00Z, or {"<queue>": "<place>"} with an entry\'s id (ms-seq) or '
    "one of these for each queue."
)


def _place(given: Given, name: str, text: str, *, entries: bool) -> Place:
    if text in ("earliest", "latest"):
        return cast("Place", text)
    if entries and text.replace("-", "", 1).isdecimal() and text.count("-") <= 1:
        return EntryId.parse(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        what = "neither a word, nor a time, nor an entry's id" if entries else "neither a word, nor a time, nor JSON"
        raise given.bad(name, f"{text}: {what}" if entries else what, _PLACES) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _named(address: Address) -> str:
    """Where a server is, without scheme and secrets. A name that stays when it moves is the option `source`."""
    if address.kind == "sentinel":
        place = address.master
    elif address.kind == "cluster":
        place = min(map(str, address.nodes))
    else:
        place = str(address.nodes[0]).replace("localhost:", "127.0.0.1:")
    return f"{place}/{address.db}" if address.db else place


def just_before(moment: datetime) -> EntryId:
    """The offset after which everything from `moment` on is read."""
    return last_of(_ceil_ms(moment) - 1)


def _ceil_ms(moment: datetime) -> int:
    whole = int(moment.replace(microsecond=0).timestamp()) * 1000
    return whole + -(-moment.microsecond // 1000)
