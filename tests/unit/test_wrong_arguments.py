"""Every public constructor refuses an argument of another kind than it takes, where it is written, and names it.

The constructors stand below with arguments that are right. Each parameter is then given what its annotation does not allow;
an annotation that stands in no table here fails, so that a new parameter has to be thought of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine

from relevo import (
    Batch,
    Consumer,
    Dedup,
    Depends,
    HealthServer,
    Job,
    LaneLimit,
    Metrics,
    Producer,
    PromoterProcess,
    Queue,
    QueueEvents,
    RetryDefaults,
    Scheduler,
    Tasks,
    Worker,
)
from relevo.client import AsyncClient, Client
from relevo.client import Consumer as MessageConsumer
from relevo.engine.schedules.schedules import MissedFiresLike
from relevo.engine.tasks.task import RunOn
from relevo.errors import RelevoError
from relevo.outbox import Outbox, OutboxRelay, OutboxTable
from relevo.wire.backoff import BackoffLike

AnyTasks: Any = Tasks
URL, HTTP = "redis://127.0.0.1:1", "http://127.0.0.1:1"


async def handle(job: Job) -> None: ...


def a_task(
    name: str | None = None,
    run_on: RunOn | None = None,
    timeout_s: float | None = None,
    attempts: int | None = None,
    backoff: BackoffLike | None = None,
    cron: str | None = None,
    tz: str | None = None,
    every: timedelta | None = None,
    missed_fires: MissedFiresLike | None = None,
) -> object:
    """`Tasks.task` with the function that it decorates."""
    given = {key: value for key, value in locals().items() if value is not None}
    return AnyTasks().task(**given)(plain)


def plain() -> None: ...


class Something:
    """Of no kind that anybody takes."""


MAKERS: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "Queue": (Queue, {"name": "q"}),
    "Worker": (Worker, {"queue_name": "q", "handler": handle}),
    "QueueEvents": (QueueEvents, {"queue_name": "q"}),
    "Scheduler": (Scheduler, {"redis_url": URL, "queue_name": "q"}),
    "PromoterProcess": (PromoterProcess, {"redis_url": URL, "queue_name": "q"}),
    "Producer": (Producer, {"redis_url": URL, "queue_name": "q"}),
    "Consumer": (Consumer, {"redis_url": URL, "queue_name": "q"}),
    "Metrics": (Metrics, {}),
    "HealthServer": (HealthServer, {"workers": [], "port": 0}),
    "Batch": (Batch, {"handler": handle, "size": 2}),
    "Tasks.task": (a_task, {}),
    "RetryDefaults": (RetryDefaults, {}),
    "LaneLimit": (LaneLimit, {"concurrency": 1, "rate": 1}),
    "Dedup.drop": (Dedup.drop, {"key": "k"}),
    "Dedup.throttle": (Dedup.throttle, {"key": "k", "every": timedelta(1)}),
    "Dedup.debounce": (Dedup.debounce, {"key": "k", "wait": timedelta(1)}),
    "Depends": (Depends, {"provider": dict}),
    "Client": (Client, {"url": HTTP, "key": "k"}),
    "AsyncClient": (AsyncClient, {"url": HTTP, "key": "k"}),
    "client.Consumer": (
        MessageConsumer,
        {"client": AsyncClient(HTTP, key="k"), "scope": "s", "queue": "q", "handler": handle},
    ),
    "Outbox": (Outbox, {"table": OutboxTable()}),
    "OutboxRelay": (OutboxRelay, {"engine": create_engine("sqlite://"), "table": OutboxTable()}),
    "OutboxTable": (OutboxTable, {}),
}

NUMBERS: list[object] = ["5", 1.5, True, b"5", [], Something()]
TEXTS: list[object] = [5, b"text", True, ["text"], Something()]
OTHERS: list[object] = [5, "text", ["text"], Something()]
WORDS: list[object] = [1.5, "text", ["text"], Something()]
WRONG: dict[str, list[object]] = {
    "int": NUMBERS,
    "float": ["5", True, b"5", [], -1, float("nan"), Something()],
    "str": TEXTS,
    "bool": ["no", 0, 1, Something()],
    "Sequence[Worker]": OTHERS,
    "Metrics": OTHERS,
    "RetryDefaults": OTHERS,
    "OutboxTable": OTHERS,
    "MetaData": OTHERS,
    "Engine | AsyncEngine": OTHERS,
    "ClaimClient": OTHERS,
    "AnyHandler": OTHERS,
    "BatchHandler": OTHERS,
    "Handler": OTHERS,
    "Callable[..., Any]": OTHERS,
    "CredentialProvider": OTHERS,
    "timedelta": WORDS,
    "OnBadResult": WORDS,
    "RunOn": WORDS,
    "BackoffLike": WORDS,
    "MissedFiresLike": WORDS,
}
"""By annotation, without its `| None`."""

UNCHECKED = {
    "httpx.BaseTransport",
    "httpx.AsyncBaseTransport",  # for tests of ours
    "Mapping[str, str]",  # checked with each claim
}
NAMED_ELSE = {
    "name": "queue name",
    "queue_name": "queue name",
    "redis_url": "Redis address",
    "cron": "cron expression",
    "expression": "cron expression",
}


def parameters() -> Iterator[tuple[str, str]]:
    for maker, (make, _) in MAKERS.items():
        for name in inspect.signature(make).parameters:
            yield maker, name


@pytest.mark.parametrize(("maker", "name"), [*parameters()])
def test_a_wrong_argument_is_refused_and_named(maker: str, name: str) -> None:
    make, right = MAKERS[maker]
    annotation = inspect.signature(make).parameters[name].annotation
    kind = annotation if isinstance(annotation, str) else annotation.__name__  # of a Struct they are evaluated
    optional = kind.endswith(" | None")
    kind = kind.removesuffix(" | None")
    if kind in UNCHECKED:
        return
    others = {"every": timedelta(1)} if name == "missed_fires" else {}
    for value in [*WRONG[kind], *([] if optional else [None])]:
        with pytest.raises(RelevoError) as refused:
            make(**{**right, **others, name: value})
        said = str(refused.value)
        assert name in said or NAMED_ELSE.get(name, name) in said, said
