"""What is answered by looking: every list of the API over millions of messages, claims by label, and claims that wait."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from benchmarks.work import seeding
from benchmarks.work.notebook import Notebook
from benchmarks.work.served import Served

LIVE, PAST, LABELLED = 1_000_000, 5_000_000, 300_000
_PATTERNS = 1_000
_CALLS = 20
_SECONDS_A_LIST = 10.0
_DEAD = 2_000
_SCOPE = "/v1/scopes/bench"
_KINDS = [
    {
        "message_type": f"type-{n % 10}",
        "source_type": "shop",
        "source_id": f"shop-{n % 100}",
        "labels": {"customer": f"c{n}", "country": f"k{n % 20}"},
        **({"correlation_id": f"order-{n}"} if n % 4 == 0 else {}),
    }
    for n in range(1_000)
]


def wake(notes: Notebook) -> None:
    """From the sending of a publish until a claim that waits is answered."""
    with contextlib.closing(Served(notes.store)) as served:
        served.warm()
        served.queue("wake")
        served.settled()
        _note_spread(notes, "wake", served.load("wake", "wake", connections=2, count=200))


def labels(notes: Notebook) -> None:
    """Claims of one by a label that few have, and by one that many have, from 300,000 pending messages."""
    count = notes.sized(LABELLED)
    rare = [{"labels": {"kind": "many"}}] * 999 + [{"labels": {"kind": "few"}}]
    with contextlib.closing(Served(notes.store)) as served:
        served.queue("labelled")
        notes.tell(f"{count:,} messages with labels")
        served.load("batch", "labelled", connections=4, count=count, size=500, attributes=rare)
        for kind in ("few", "many"):
            served.settled()
            claim = {"labels": {"kind": kind}}
            calls = min(50, count // 1_000)
            measured = served.load("claims", "labelled", connections=1, count=calls, claim=claim)
            _note_spread(notes, f"claim_label_{kind}", measured)


def lists(notes: Notebook) -> None:
    """Every list of the API, twenty times each, at a million live messages and five million archived ones."""
    with contextlib.closing(Served(notes.store)) as served:
        fill(notes, served)
        ask(notes, served)


def fill(notes: Notebook, served: Served) -> None:
    """A thousand messages of all kinds come in over HTTP, the millions are copies of them."""
    live, past = notes.sized(LIVE), notes.sized(PAST)
    for queue in ("past", "live", "failing"):
        served.queue(queue)
    served.queue("told", consumer_mode="broadcast")
    served.load("batch", "past", connections=4, count=_PATTERNS, size=500, attributes=_KINDS)
    served.load("drain", "past", connections=4, count=_PATTERNS, size=500)
    served.load("batch", "live", connections=4, count=_PATTERNS, size=500, attributes=_KINDS)
    served.load("batch", "failing", connections=4, count=_DEAD, size=500)
    served.load("fail", "failing", connections=4, count=_DEAD, size=500, verdict={"dead": True})
    served.settled()
    served.stop()
    seeding.archived(served.database_url, "past", past, ago_s=7_200, tell=lambda done: notes.tell(f"archive: {done}"))
    seeding.waiting(served.database_url, "live", live, ago_s=60, tell=lambda done: notes.tell(f"live: {done}"))
    served.start()
    served.settled()


def ask(notes: Notebook, served: Served) -> None:
    """Each list, as often as the time allows."""
    worst, memory, refused = 0.0, 0.0, list[str]()
    for name, path in _paths(served):
        notes.tell(f"list: {name}")
        asked = {"paths": {name: path}, "seconds": _SECONDS_A_LIST}
        try:
            answer = served.load("reads", "live", connections=1, count=_CALLS, **asked)
        except RuntimeError as error:  # the others are still worth measuring
            refused.append(f"{name}: {error}")
            continue
        p95 = answer["reads"][name]["p95_ms"]
        notes.value(f"list {name}", p95)
        worst, memory = max(worst, p95), max(memory, answer["memory_mb"])
    notes.value("lists_p95_ms", worst)
    notes.value("lists_memory_mb", memory)
    if refused:
        raise RuntimeError("; ".join(refused))


def _paths(served: Served) -> Iterator[tuple[str, str]]:
    """Every list with its filters: what it is called, and where it is."""
    messages = f"{_SCOPE}/messages"
    first = served.get(f"{messages}?limit=1&queue=live")["data"][0]
    page = served.get(f"{messages}?limit=100")["meta"]["next_cursor"]
    moment = first["created_at"]
    filters = {
        "newest": "",
        "second page": f"cursor={page}",
        "queue with live ones": "queue=live",
        "queue with archived ones": "queue=past",
        "pending": "state=pending",
        "completed": "state=completed",
        "dead": "state=dead",
        "archive": "archived=true",
        "not archived": "archived=false",
        "type": "message_type=type-3",
        "type that nobody has": "message_type=none",
        "source": "source_id=shop-42",
        "correlation": "correlation_id=order-40",
        "correlation that nobody has": "correlation_id=none",
        "key": f"idempotency_key={first['idempotency_key']}",
        "key that nobody has": "idempotency_key=none",
        "parent": f"parent_id={first['id']}",
        "label": "label=customer%3Dc17",
        "label that nobody has": "label=customer%3Dnobody",
        "two labels": "label=customer%3Dc17&label=country%3Dk17",
        "label and type": "label=customer%3Dc17&message_type=type-7",
        "queue, label and state": "queue=live&label=customer%3Dc17&state=pending",
        "source in a queue": "queue=past&source_id=shop-42",
        "since a minute": f"since={moment - 60_000}",
        "a minute of the past": f"since={moment - 7_260_000}&until={moment - 7_200_000}",
    }
    for name, asked in filters.items():
        yield f"messages, {name}", f"{messages}?{asked}" if asked else messages
    yield "message", f"{messages}/{first['id']}"
    yield "history of a message", f"{messages}/{first['id']}/history"
    yield "trace", "/v1/trace?correlation_id=order-40"
    for name in ("audit", "usage"):
        yield name, f"/v1/{name}"
    audited = {
        "scope": "scope=bench",
        "queue": "scope=bench&queue=live",
        "actor": "actor=nobody",
        "action": "action=agent.run",
        "target": f"target={first['id']}",
        "correlation": "correlation_id=order-40",
    }
    for name, asked in audited.items():
        yield f"audit, {name}", f"/v1/audit?{asked}"
    yield "usage, scope", "/v1/usage?scope=bench"
    for name in ("scopes", "keys", "agents"):
        yield name, f"/v1/{name}"
    for name in (
        *("queues", "dead-letters", "replays", "erasures", "grants", "reviews", "rules", "schemas", "review-patterns"),
        *("stream-watches", "trusts", "webhooks", "queues/told/subscriptions"),
    ):
        yield name.rpartition("/")[2], f"{_SCOPE}/{name}"


def _note_spread(notes: Notebook, name: str, measured: dict[str, Any]) -> None:
    for each in ("p50_ms", "p95_ms", "p99_ms"):
        notes.value(f"{name}_{each}", measured[each])
    notes.note(name, measured)
