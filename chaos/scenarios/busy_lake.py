"""An ingest, a build, compaction and vacuum work on one lake at once and are killed with -9 at random, while events arrive: in
the end every event is there once, every number is right, and every reader reads the same."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from chaos.lake_program import QUEUES
from relevo.pipeline.commands.build import build
from relevo.pipeline.commands.ingest import Ingest
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.upkeep import compact, vacuum
from relevo.wire.keys import QueueKeys
from tests.servers.child import Child
from tests.servers.server import Server
from tests.spark.lake import plain
from tests.spark.lake.happenings import Happenings, Row, invented
from tests.spark.lake.readers import facts, readers, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = ("follow", "build", "upkeep")
EVENTS_A_SECOND = 200
AT_FIRST = 1_000
COUNTED = ("arrived", "started", "done", "failed", "retried", "dead")
_FIELDS = ("e", "id", "ts", "n", "attempt", "duration_us", "reason", "backoff_ms")
_MONTH_S = 31 * 86_400
_LEFT_OVER = "left-by-a-driver-that-died.parquet"


@dataclass
class LakeStory:
    """What was done to a lake, and what came of it."""

    kills: Counter[str] = field(default_factory=Counter[str])
    did: Counter[str] = field(default_factory=Counter[str])
    """How often each did its work."""
    merged: int = 0
    deleted: int = 0
    events: int = 0
    missing: int = 0
    doubled: int = 0
    wrong_minutes: list[Any] = field(default_factory=list[Any])
    """Minutes whose numbers are not those of a plain recomputation."""
    disagreeing: list[str] = field(default_factory=list[str])
    """`reader table`, where a reader reads other rows than `deltalake`."""
    tables: int = 0
    old_files: list[str] = field(default_factory=list[str])
    """Files that vacuum should have deleted meanwhile."""
    strays: list[str] = field(default_factory=list[str])
    """Files that no table knows, after a last vacuum."""


class BusyLake:
    """One run. The seed is part of every report: the same dice can be thrown again."""

    def __init__(self, spark: SparkSession, server: Server, folder: Path, *, seed: int) -> None:
        self._spark = spark
        self._server = server
        self._folder = folder
        self._dice = random.Random(seed)
        self._lake = Lake(folder / "lake")
        self._options = {"url": server.url, "queues": QUEUES, "source": "chaos"}
        self._old: list[Path] = []
        self._children: dict[str, Child] = {}
        self.story = LakeStory()

    def run(self, seconds: float) -> LakeStory:
        """Events and kills for so long, then quiet, one ingest and one build; then all is judged."""
        rows = _told(round(AT_FIRST + seconds * EVENTS_A_SECOND))
        self._feed(rows[:AT_FIRST])
        self._begin()
        ended = threading.Event()
        feeder = threading.Thread(target=self._feed_slowly, args=(rows[AT_FIRST:], seconds, ended), daemon=True)
        feeder.start()
        try:
            self._kill_for(seconds)
        finally:
            ended.set()
            for part in list(self._children):
                self._kill(part)
            feeder.join()
        self._finish()
        return self.story

    # --- what happens ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A lake with a past: files merged a month ago, and files of drivers that died then, which vacuum may delete."""
        Ingest(self._lake, self._spark).once({**self._options, "maxRowsPerTrigger": str(AT_FIRST // 8)})
        before = {file.path for file in self._lake.table("bronze.events").files()}
        with mock.patch("time.time_ns", return_value=(int(time.time()) - _MONTH_S) * 10**9):
            assert compact(self._lake, "bronze.events", least=2).before > 1
        after = {file.path for file in self._lake.table("bronze.events").files()}
        assert build(self._lake, self._spark, upkeep=False).broken == ()
        self._old = [self._lake.root / "bronze/events" / path for path in before - after]
        for name in written(self._lake):
            left = self._lake.folder(name).folder / _LEFT_OVER
            left.write_bytes(b"PAR1 and then a crash")
            long_ago = time.time() - _MONTH_S
            os.utime(left, (long_ago, long_ago))
            self._old.append(left)

    def _kill_for(self, seconds: float) -> None:
        for part in PARTS:
            self._start(part)
        ends, turn = time.monotonic() + seconds, 0
        while time.monotonic() < ends:
            # Each in its turn, once it has done something: a process that still starts has nothing to lose.
            part = PARTS[turn % len(PARTS)]
            turn += 1
            self._children[part].wait_for(r"took|built|kept", timeout=240)
            time.sleep(self._dice.uniform(0, 3))  # and then any moment: there is none to wait for
            self._children[part].must_live("its kill")
            self._kill(part)
            self.story.kills[part] += 1
            self._start(part)

    def _start(self, part: str) -> None:
        command = (sys.executable, "-m", "chaos.lake_program", part, self._folder / "lake", self._server.url)
        # Who is killed cannot tidy up: what it leaves goes with the run's folder.
        environment = {**os.environ, "TMPDIR": str(self._folder)}
        log = self._folder / f"{part}.log"
        self._children[part] = Child(*command, env=environment, logs=[log], group=True)

    def _kill(self, part: str) -> None:
        child = self._children.pop(part)
        child.kill()
        for line in child.out.splitlines():
            word, *numbers = line.split()
            self.story.did[word] += 1
            if word == "kept":
                self.story.merged += int(numbers[0])
                self.story.deleted += int(numbers[1])
        child.close()

    def _feed_slowly(self, rows: list[Row], seconds: float, ended: threading.Event) -> None:
        share = max(1, EVENTS_A_SECOND // 4)
        for first in range(0, len(rows), share):
            self._feed(rows[first : first + share])
            if ended.wait(seconds * share / len(rows)):
                return

    def _feed(self, rows: list[Row]) -> None:
        for row in rows:
            fields = [part for name in _FIELDS if row[name] is not None for part in (name, str(row[name]))]
            self._server.call("XADD", QueueKeys(row["queue"]).events, row["_id"], *fields)

    # --- what came of it -------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        story, lake = self.story, self._lake
        Ingest(lake, self._spark).once(self._options)
        built = build(lake, self._spark)
        assert built.broken == (), built.broken
        ids = [
            (queue, entry[0].decode())
            for queue in QUEUES.split(",")
            for entry in self._server.call("XRANGE", QueueKeys(queue).events, "-", "+")
        ]
        bronze: list[Row] = lake.arrow("bronze.events").to_pylist()
        wanted, found = Counter(ids), Counter((row["queue"], row["_id"]) for row in bronze)
        story.events, story.missing = len(ids), (wanted - found).total()
        story.doubled = (found - wanted).total()
        story.wrong_minutes = self._wrong_minutes(bronze)
        self._ask_all_readers()
        story.old_files = [str(path.relative_to(lake.root)) for path in self._old if path.exists()]
        for name in written(lake):
            vacuum(lake, name, kept_days=0)
            known = {file.path for file in lake.table(name).files()}
            there = lake.folder(name).folder
            paths = (path.relative_to(there).as_posix() for path in there.rglob("*.parquet"))
            story.strays += [f"{name} {path}" for path in paths if path not in known and not path.startswith("_")]
        self._ask_all_readers()

    def _wrong_minutes(self, bronze: list[Row]) -> list[Any]:
        rows = sorted(bronze, key=lambda row: tuple(map(int, row["_id"].split("-"))))
        wanted = plain.minutes_of(plain.jobs_of(rows))
        minutes: list[Row] = self._lake.arrow("gold.throughput").to_pylist()
        found = {
            (round(row["minute"].timestamp() * 1000), row["source"], row["queue"], row["name"]): {
                name: row[name] for name in COUNTED if row[name]
            }
            for row in minutes
        }
        expected = {place: {name: counts[name] for name in COUNTED if counts[name]} for place, counts in wanted.items()}
        places = sorted({*found, *expected})
        return [
            (place, found.get(place), expected.get(place))
            for place in places
            if (found.get(place) or {}) != (expected.get(place) or {})
        ]

    def _ask_all_readers(self) -> None:
        names = written(self._lake)
        self.story.tables = len(names)
        asked = readers(self._lake, self._spark)
        for name in names:
            told = {reader: facts(read(name)) for reader, read in asked.items()}
            self.story.disagreeing += [f"{one} {name}" for one, rows in told.items() if rows != told["deltalake"]]


def _told(events: int) -> list[Row]:
    """Events of invented jobs as one server hears of them. Their ids are of their own time: a clock that is far off is not
    believed."""
    heard = Happenings()
    for row in invented(events, days=0.1).rows:
        if row["id"] != "twin":  # two jobs, on two servers
            extras = {name: row[name] for name in ("attempt", "duration_us", "reason", "backoff_ms")}
            heard.tell(row["ts"], row["e"], row["id"], row["queue"], name=row["n"], **extras)
    return heard.rows[:events]
