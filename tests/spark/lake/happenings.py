"""Events of invented queues, as the connector would read them: jobs that succeed, fail, die, are replayed, lost, cancelled."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from relevo.pipeline.connector.columns import EVENTS, ddl
from relevo.wire.ids import IdMint

DAY = 86_400_000
START = 20_000 * DAY  # 2024-10-04, midnight

_ARROW = {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}

Row = dict[str, Any]


class Happenings:
    """Writes events down in the order in which they are told, as rows of bronze.events."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._last: dict[str, tuple[int, int]] = {}

    def tell(
        self, at: int, event: str, job: str, queue: str = "emails", *, name: str | None = "send", **extras: Any
    ) -> None:
        """One event at `at` ms; extras are columns. `server` is the server's clock where it differs from the writer's."""
        ms, sequence = self._last.get(queue, (0, 0))
        now = extras.pop("server", at)
        self._last[queue] = (now, 0) if now > ms else (ms, sequence + 1)
        ms, sequence = self._last[queue]
        row: Row = {column.name: None for column in EVENTS}
        row |= {"queue": queue, "e": event, "id": job, "ts": at, "n": name, **extras}
        row |= {"_stream": f"{{chasqui:{queue}}}:events", "_id": f"{ms}-{sequence}", "_ts": ms * 1000}
        self.rows.append(row)

    def table(self, rows: Iterable[Row] | None = None) -> pa.Table:
        told = list(self.rows if rows is None else rows)
        fields = [
            pa.field(column.name, _ARROW.get(column.type) or pa.map_(pa.string(), pa.string())) for column in EVENTS
        ]
        return pa.Table.from_pylist(told, pa.schema(fields))

    def frame(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(self.table(), ddl(EVENTS))


def invented(jobs: int, *, seed: int = 1, days: float = 2.0, start: int = START) -> Happenings:
    """`jobs` jobs over `days` days on three queues, told in the order of their times."""
    rng = random.Random(seed)
    mint = IdMint()
    told: list[tuple[int, int, tuple[Any, ...], dict[str, Any]]] = []
    for number in range(jobs):
        at = start + int(days * DAY * number / jobs)
        queue, name = rng.choice([("emails", "send"), ("emails", "digest"), ("orders", "ship"), ("media", None)])
        # Minted in order here, though jobs of a real queue need not be.
        job = mint(at) if rng.random() < 0.9 else f"custom-{number}"
        for place, (when, event, extras) in enumerate(_life(rng, at)):
            told.append((when, number * 100 + place, (when, event, job, queue), {"name": name, **extras}))
    story = Happenings()
    for _, _, what, extras in sorted(told, key=lambda one: one[:2]):
        story.tell(*what, **extras)
    return story


def _life(rng: random.Random, at: int) -> Iterable[tuple[int, str, dict[str, Any]]]:
    if rng.random() < 0.1:
        at += rng.randrange(1_000, 7_200_000)
        yield at, "waiting", {}
    at += rng.randrange(1, 500)
    for attempt in range(1, 4):
        took = rng.randrange(200, 2_000_000)
        fate = rng.random()
        yield at, "active", {"attempt": attempt}
        if fate < 0.02:  # the worker died
            at += 30_000
            yield at, "stalled", {"attempt": 1, "prev": "active"}
            at += 5
            yield at, "active", {"attempt": attempt}
        at += took // 1000
        if fate < 0.75:
            yield at, "completed", {"attempt": attempt, "duration_us": took}
            return
        if fate < 0.77:
            yield at, "cancelled", {"attempt": attempt}
            return
        reason = rng.choice(
            [f"timeout after {rng.randrange(99)} s", "'ada' is unknown", f"host 10.0.0.{rng.randrange(9)} is down"]
        )
        yield at, "failed", {"attempt": attempt, "reason": reason, "duration_us": took}
        if attempt < 3:
            backoff = rng.randrange(100, 60_000)
            yield at + 1, "retry-scheduled", {"attempt": attempt + 1, "backoff_ms": backoff}
            at += 1 + backoff
            yield at, "waiting", {}
            at += rng.randrange(1, 300)
    yield at + 1, "dlq", {"attempt": 3, "reason": "retries_exhausted"}
    if rng.random() < 0.3:  # replayed, and good this time
        at += 600_000
        yield at, "active", {"attempt": 1}
        yield at + 40, "completed", {"attempt": 1, "duration_us": 40_000}
