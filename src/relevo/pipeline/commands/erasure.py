"""The erasure command: what work queues have erased of a data subject goes from the lake as well. No Spark, no JVM.

SQL lists the messages of an erasure. Those that had left SQL for the lake before are in no such list: they are found by the
digest of their label `subject`. What goes is what goes in SQL (work/retention/erasure.py): bodies, results, failure details,
the label, what a history and a review say, the copies of events in `_events`; and the reasons and unknown fields of the events
of jobs that these messages were worked on as. That they were there stays.

bronze, and silver.events, are written anew at once, and the files that held it are deleted. Every other table is made from
these: the next build makes it again, and deletes the versions from before.
"""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportUnknownParameterType=false

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from relevo.pipeline.lake.instants import DAY_MS
from relevo.pipeline.lake.lake import ERASED_AT, Lake, Staged
from relevo.work.store.database import Database
from relevo.work.store.subjects import LABEL, digest_of
from relevo.work.store.tables import erased, erasures, queues

MESSAGES, REVIEWS, QUARANTINE = "bronze.messages", "bronze.reviews", "bronze.quarantine"
NO_DIGEST = "0" * 64
BLANK = "erased"
LATE_MS = DAY_MS
"""So long after its end an erasure is looked at again: events may come to the lake late."""
_DONE = "erasures"
_KEPT = frozenset({"worker", "to", "subscription", "decision"})
"""Fields of an event that silver is made of, and that are words of queues and not of people: where a message went, who was to
get it, which of a review's answers was chosen. Without them a silver that is built again would tell another story."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Erased:
    """What a run did: erasures looked at, and the rows of the lake that say nothing any more."""

    erasures: int
    messages: int
    reviews: int
    events: int


class Erasure:
    """Carries the erasures of one database out on one lake. May be killed at any point and run again."""

    def __init__(self, lake: Lake, database: Database) -> None:
        self._lake = lake
        self._database = database

    async def run(self) -> Erased:
        done: list[str] = self._lake.notes(MESSAGES).get(_DONE, [])
        meant, listed, copies = await self._asked(set(done))
        if not meant:
            return Erased(0, 0, 0, 0)
        ids = self._found(meant, listed, copies)
        messages = self._lake.rewrite(MESSAGES, ["id", "body_digest"], _of(ids, "id", _is_told), _blank_message)
        reviews = self._lake.rewrite(
            REVIEWS, ["message_id", "title"], _of(ids, "message_id", _has_title), _blank_review
        )
        events = sum(
            self._lake.rewrite(table, columns, _of_jobs(ids, columns[0]), _blank_event)
            for table, columns in (("bronze.events", ["id", "reason", "rest"]), ("silver.events", ["job_id", "reason"]))
        )
        events += self._lake.rewrite(QUARANTINE, ["row"], _quarantined(ids), lambda row: row | {"row": "{}"})
        self._note(done, meant, changed=messages + reviews + events > 0)
        return Erased(len(meant), messages, reviews, events)

    async def _asked(self, done: set[str]) -> tuple[list[Row], set[str], set[int]]:
        """The erasures that are new here, the messages SQL lists for them, and the queues that hold copies of events."""
        async with self._database.connect() as connection:
            rows = (await connection.execute(select(erasures).order_by(erasures.c.id))).mappings().all()
            meant = [dict(row) for row in rows if row["id"] not in done]
            listed: set[str] = set()
            for erasure in meant:
                mine = select(erased.c.message_id).where(erased.c.erasure_id == erasure["id"])
                listed.update((await connection.execute(mine)).scalars())
            homes = select(queues.c.id).where(queues.c.slug == "_events")
            return meant, listed, set((await connection.execute(homes)).scalars())

    def _found(self, meant: list[Row], listed: set[str], copies: set[int]) -> set[str]:
        """The listed messages, those of the lake with the subject's label, and the copies of all their events."""
        subjects = {(row["scope_id"], row["subject_digest"]): row["created_at"] for row in meant}
        found, caused = set(listed), list[tuple[str, str]]()
        for row in self._rows(MESSAGES, ["id", "scope_id", "queue_id", "labels", "created_at", "causation_id"]):
            subject = json.loads(row["labels"]).get(LABEL)
            if subject is not None and row["created_at"] <= subjects.get((row["scope_id"], digest_of(subject)), -1):
                found.add(row["id"])
            if row["queue_id"] in copies and row["causation_id"] is not None:
                caused.append((row["id"], row["causation_id"]))
        return found | {copy for copy, cause in caused if cause in found}

    def _rows(self, table: str, columns: list[str]) -> Iterator[Row]:
        for file in self._lake.table(table).files():
            yield from self._lake.arrow_file(table, file.path, columns).to_pylist()

    def _note(self, done: list[str], meant: list[Row], *, changed: bool) -> None:
        now = time.time_ns() // 1_000_000
        over = [row["id"] for row in meant if row["finished_at"] is not None and row["finished_at"] < now - LATE_MS]
        notes: Row = ({_DONE: [*done, *over]} if over else {}) | ({ERASED_AT: now} if changed else {})
        if notes:
            self._lake.commit(Staged(self._lake.spec(MESSAGES)), instead=False, notes=notes)


Mask = Callable[[Any], list[bool]]


def _of(ids: set[str], column: str, told: Callable[[Row], bool]) -> Mask:
    """Rows of these messages that still say something."""
    return lambda rows: [row[column] in ids and told(row) for row in rows.to_pylist()]


def _of_jobs(ids: set[str], column: str) -> Mask:
    """Events of the jobs these messages were worked on as. A job's id is its message's, with a number after the first send."""
    return lambda rows: [(row[column] or "").partition(".")[0] in ids and _says(row) for row in rows.to_pylist()]


def _quarantined(ids: set[str]) -> Mask:
    return lambda rows: [(json.loads(row["row"]).get("id") or "").partition(".")[0] in ids for row in rows.to_pylist()]


def _says(event: Row) -> bool:
    return event["reason"] not in (None, BLANK) or any(name not in _KEPT for name, _ in event.get("rest") or ())


def _is_told(row: Row) -> bool:
    return row["body_digest"] != NO_DIGEST


def _has_title(row: Row) -> bool:
    return row["title"] != BLANK


def _blank_message(row: Row) -> Row:
    labels = json.loads(row["labels"])
    labels.pop(LABEL, None)
    told: list[list[Any]] = json.loads(f"[{row['trail'].rstrip(',')}]")
    plain = "".join(json.dumps([*step[:3], None], separators=(",", ":")) + "," for step in told)
    blank = dict.fromkeys(name for name in ("body", "result", "failure_reason", "error", "hitl_spec") if name in row)
    return row | blank | {"body_digest": NO_DIGEST, "labels": json.dumps(labels, separators=(",", ":")), "trail": plain}


def _blank_review(row: Row) -> Row:
    case = json.loads(row["document"])
    kept = {name: case[name] for name in ("id", "state", "opened_at", "finished_at") if name in case}
    return row | {"title": BLANK, "document": json.dumps(kept | {"votes": [], "notes": []}), "holder": None}


def _blank_event(row: Row) -> Row:
    reason = {} if row["reason"] is None else {"reason": BLANK}
    rest = {"rest": [field for field in row["rest"] or () if field[0] in _KEPT]} if "rest" in row else {}
    return row | reason | rest
