"""Streams with something in them, written as the engine would, on any kind of server."""

from collections.abc import Iterable, Sequence

from pyspark.sql.pandas.types import to_arrow_schema  # pyright: ignore[reportUnknownVariableType]
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from relevo.broker.address import Address
from relevo.pipeline.connector.connection import Argument, Directory, ReplyError
from relevo.pipeline.source_columns import TABLES
from relevo.wire.dead import DeadLetterFields
from relevo.wire.envelope import Envelope
from relevo.wire.events import EventFields
from relevo.wire.keys import REGISTRY, QueueKeys
from relevo.wire.payload import encode_payload
from tests.pace import limit
from tests.servers.server import Server

_BACKOFF = StructType(
    [
        StructField("kind", StringType()),
        StructField("delay_ms", LongType()),
        StructField("max_delay_ms", LongType()),
        StructField("multiplier", DoubleType()),
        StructField("jitter_ms", LongType()),
    ]
)
_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
}
_RETRY = StructType([StructField("max_attempts", LongType()), StructField("backoff", _BACKOFF)])


def spark_schema(what: str, *names: str, raw: bool = False) -> StructType:
    """The columns of a table (or some of them) as Spark's types, without a session."""
    fields = [
        StructField(column.name, BinaryType() if raw and column.name == "data" else _TYPES.get(column.type, _RETRY))
        for column in TABLES[what]
        if not names or column.name in names
    ]
    return StructType(fields)


def arrow_schema(what: str, *names: str) -> object:
    return to_arrow_schema(spark_schema(what, *names), timezone="UTC")  # pyright: ignore[reportUnknownVariableType]


def directory_of(url: str) -> Directory:
    return Directory(Address.parse(url), timeout_s=limit(10))


def send(url: str, key: bytes, commands: Iterable[tuple[Argument, ...]]) -> list[object]:
    """Commands about one key, wherever it lives."""
    directory = directory_of(url)
    try:
        listed, replies = list(commands), list[object]()
        for at in range(0, len(listed), 1000):
            replies += directory.connection(key).pipeline(listed[at : at + 1000])
    finally:
        directory.close()
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise reply
    return replies


def add_events(
    url: str,
    queue: str,
    count: int,
    *,
    ids: Sequence[str] | None = None,
    name: str = "mail",
    registered: bool = True,
) -> list[str]:
    """A life of jobs: waiting, active, completed, failed in turn. Returns the ids of the entries."""
    if registered:
        send(url, REGISTRY, [("SADD", REGISTRY, queue)])
    key = QueueKeys(queue).events
    kinds: list[tuple[str, dict[str, int]]] = [
        ("waiting", {}),
        ("active", {"attempt": 1}),
        ("completed", {"attempt": 1, "duration_us": 5}),
        ("drained", {}),
    ]
    commands: list[tuple[Argument, ...]] = []
    for number in range(count):
        event, extras = kinds[number % 4]
        fields = EventFields(event, f"job-{number // 4}", 1_700_000_000_000 + number, name, extras).encode()
        commands.append(("XADD", key, ids[number] if ids else "*", *fields))
    return [reply.decode() for reply in send(url, key, commands) if isinstance(reply, bytes)]


def add_jobs(url: str, queue: str, count: int) -> None:
    key = QueueKeys(queue).stream
    envelopes = [
        Envelope(f"job-{number}", encode_payload({"i": number}, "mail"), 1_700_000_000_000).encode()
        for number in range(count)
    ]
    send(url, key, [("XADD", key, "*", "d", envelope, "n", "mail") for envelope in envelopes])


def add_letters(server: Server, queue: str) -> None:
    """Three dead letters; the payload of the last one is no msgpack."""
    key = QueueKeys(queue).dead
    for number in range(3):
        payload = encode_payload({"n": number}, "send") if number < 2 else b"\xc1 no msgpack"
        envelope = Envelope(f"job-{number}", payload, 1_700_000_000_000).encode()
        letter = DeadLetterFields(envelope, "send", "1-0", "retries_exhausted", f"no route {number}")
        server.call("XADD", key, "*", *letter.encode())
