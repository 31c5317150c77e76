"""Events of invented queues of both rooms, as the connector would read them: jobs that succeed, fail, die, are replayed, lost
or cancelled; messages that are also routed, reviewed, released, expired, relayed twice, and worked on as jobs."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from relevo.pipeline.source_columns import EVENTS, ddl
from relevo.wire.ids import IdMint

DAY = 86_400_000
START = 20_000 * DAY  # 2024-10-04, midnight

_ARROW = {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}

Row = dict[str, Any]


class Happenings:
    """Writes events down in the order in which they are told, as rows of bronze.events."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._last: dict[tuple[str, str], tuple[int, int]] = {}

    def tell(
        self, at: int, event: str, job: str, queue: str = "emails", *, name: str | None = "send", **extras: Any
    ) -> None:
        """One event at `at` ms; extras are columns, or fields beside them. `server` is the server's clock where it differs from
        the writer's."""
        where = (extras.setdefault("source", "one"), queue)
        ms, sequence = self._last.get(where, (0, 0))
        now = extras.pop("server", at)
        self._last[where] = (now, 0) if now > ms else (ms, sequence + 1)
        ms, sequence = self._last[where]
        row: Row = {column.name: None for column in EVENTS}
        rest = [(field, str(extras.pop(field))) for field in list(extras) if field not in row]
        row |= {"queue": queue, "e": event, "id": job, "ts": at, "n": name, "rest": rest or None, **extras}
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


Told = tuple[int, int, tuple[Any, ...], dict[str, Any]]
"""When, in which order, and what is told."""


def invented(jobs: int, *, messages: int = 0, seed: int = 1, days: float = 2.0, start: int = START) -> Happenings:
    """`jobs` jobs and `messages` messages over `days` days on two servers, told in the order of their times."""
    rng = random.Random(seed)
    told = [*_jobs(rng, jobs, days, start), *_messages(rng, messages, days, start)]
    story = Happenings()
    for _, _, what, extras in sorted(told, key=lambda one: one[:2]):
        story.tell(*what, **extras)
    return story


def _jobs(rng: random.Random, jobs: int, days: float, start: int) -> Iterable[Told]:
    mint = IdMint()
    for number in range(jobs):
        at = start + int(days * DAY * number / jobs)
        queue, name = rng.choice([("emails", "send"), ("emails", "digest"), ("orders", "ship"), ("media", None)])
        # Minted in order here, though jobs of a real queue need not be.
        job = mint(at) if rng.random() < 0.9 else f"custom-{number}"
        source = "two" if number % 3 == 0 else "one"
        if number in (10, 12):
            job, queue, name, source = "twin", "emails", "send", "one" if number == 10 else "two"
        for place, (when, event, extras) in enumerate(_life(rng, at)):
            yield when, number * 100 + place, (when, event, job, queue), {"name": name, "source": source, **extras}


def _messages(rng: random.Random, messages: int, days: float, start: int) -> Iterable[Told]:
    """As the outbox numbers them: one row a change, in the order of time. Some are relayed once more."""
    mint = IdMint()
    lives: list[tuple[int, str, str, str, str, dict[str, Any]]] = []
    for number in range(messages):
        at = start + int(days * DAY * number / messages)
        made = mint(at)
        for when, event, job, queue, extras in _message(rng, at, made):
            lives.append((when, event, job, queue, made, extras))
    order = sorted(range(len(lives)), key=lambda place: (lives[place][0], place))
    for number, place in enumerate(order):
        when, event, job, queue, made, extras = lives[place]
        told = (when, 10**9 + number, (when, event, job, queue), {"name": "invoice", **extras})
        if not queue.startswith("work."):  # the job that a message became
            yield told
            continue
        told[3].update(correlation_id=f"order-{made}", seq=f"{1000 + number}-0")
        yield told
        if number % 7 == 0:  # the relay died before it had deleted the row, and sent it again
            again = when + 40_000
            yield again, 10**9 + number, (when, event, job, queue), {**told[3], "server": again}


HOME, OTHER = "work.acme.billing.invoices", "work.acme.billing.large"


Change = tuple[int, str, str, str, dict[str, Any]]
"""When, what, to which message or job, in which queue, and more."""


def _message(rng: random.Random, at: int, made: str) -> Iterable[Change]:
    queue = HOME

    def told(event: str, **extras: Any) -> Change:
        return at, event, made, queue, extras

    yield told("published")
    fate = rng.random()
    if fate < 0.15:
        yield told("routed", rule="large", to="large", hop=1)
        queue = OTHER
    elif fate < 0.25:
        yield from _reviewed(rng, at, made)
        return
    elif fate < 0.35:
        yield from _bridged(rng, at, made)
        return
    elif fate < 0.40:
        at += 3_600_000
        yield told("expired", reason="ttl")
        return
    elif fate < 0.45:
        yield told("cancelled", reason="changed my mind")
        return
    elif fate < 0.48:
        return  # pending
    yield from _worked(rng, at, made, queue)


def _reviewed(rng: random.Random, at: int, made: str) -> Iterable[Change]:
    yield at, "review_needed", made, HOME, {"review": f"r-{made}"}
    at += rng.randrange(1_000, 600_000)
    decided = rng.choice(["approve", "reject", "late"])
    yield at, "review_decided", made, HOME, {"review": f"r-{made}", "decision": decided, "reason": ""}
    if decided == "approve":
        yield at, "completed", made, HOME, {"attempt": 0}
    elif decided == "reject":
        yield at, "cancelled", made, HOME, {"reason": "rejected"}
    else:
        yield at, "failed", made, HOME, {"attempt": 0, "reason": "review: nobody decided"}


def _worked(rng: random.Random, at: int, made: str, queue: str) -> Iterable[Change]:
    def told(event: str, **extras: Any) -> Change:
        return at, event, made, queue, extras

    for attempt in range(1, 4):
        waited = rng.randrange(1, 9_000)
        at += waited
        yield told("claimed", attempt=attempt, wait_ms=waited)
        at += rng.randrange(1, 40_000)
        held = rng.randrange(200, 900_000)
        fate = rng.random()
        if fate < 0.1:
            yield told("released", attempt=attempt)
        elif fate < 0.2:
            yield told("reclaimed", attempt=attempt)
            if fate < 0.12:
                at += 5
                yield told("cancelled", reason="no use any more")
                return
        elif fate < 0.75:
            yield told("extended", attempt=attempt)
            yield told("completed", attempt=attempt, duration_us=held)
            return
        else:
            yield told("failed", attempt=attempt, duration_us=held, reason=f"timeout after {rng.randrange(99)} s")
            if attempt < 3:
                yield told("retried", attempt=attempt, backoff_ms=500)
                at += 500
    yield told("dead_lettered", attempt=3, reason="retries_exhausted")
    if rng.random() < 0.4:
        at += 700_000
        yield told("replayed", attempt=0, reason="retries_exhausted", replay="p-1")
        if rng.random() < 0.5:
            at += 20
            yield told("claimed", attempt=1, wait_ms=20)
            at += 30
            yield told("completed", attempt=1, duration_us=30_000)


def _bridged(rng: random.Random, at: int, made: str) -> Iterable[Change]:
    """A message that is worked on as a job of a stream queue, and once more after it failed there."""
    yield at, "routed", made, HOME, {"rule": "fast", "to": "stream:bridged", "hop": 1}
    job = made
    for sends in (1, 2):
        took = rng.randrange(5, 400)
        yield at + 3, "active", job, "bridged", {"attempt": 1}
        if rng.random() < 0.7 or sends == 2:
            yield at + 3 + took, "completed", job, "bridged", {"attempt": 1, "duration_us": took * 1000}
            held = (took + 7) * 1000
            yield at + 7 + took, "completed", made, HOME, {"attempt": sends, "duration_us": held}
            return
        yield (
            at + 3 + took,
            "failed",
            job,
            "bridged",
            {"attempt": 1, "duration_us": took * 1000, "reason": "'ada' is unknown"},
        )
        yield at + 4 + took, "dlq", job, "bridged", {"attempt": 1, "reason": "unrecoverable"}
        at += 7 + took
        yield at, "failed", made, HOME, {"attempt": 1, "duration_us": (took + 7) * 1000, "reason": "'ada' is unknown"}
        yield at, "retried", made, HOME, {"attempt": 1, "backoff_ms": 300}
        at, job = at + 300, f"{made}.2"


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
