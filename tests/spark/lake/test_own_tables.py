"""Tables of your own, from SQL files in the lake."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relevo.errors import BadArgument
from relevo.pipeline.commands.build import Built, build
from relevo.pipeline.commands.lineage import Lineage
from relevo.pipeline.commands.progress import Step
from relevo.pipeline.commands.status import status
from relevo.pipeline.lake.expectations import Expectation
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.own import own_tables, parse
from tests.spark.lake.test_lineage import server
from tests.spark.lake.test_table_commands import NEW_DAY, OLD_DAY, rows
from tests.support.command_line import call

TOTALS = """-- Messages by queue.
-- expect drop: messages < 100
SELECT queue, sum(messages) AS messages FROM relevo_gold.usage GROUP BY queue
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.commit(made.stage_arrow("gold.usage", {OLD_DAY: rows(OLD_DAY, 1, 2)}), instead=False)
    (made.root / "sql").mkdir()
    return made


def write(lake: Lake, name: str, text: str) -> None:
    (lake.root / "sql" / f"{name}.sql").write_text(text)


def step(built: Built, table: str) -> Step:
    (found,) = (step for step in built.steps if step.table == table)
    return found


def told(lake: Lake, table: str) -> list[dict[str, Any]]:
    found: Any = lake.arrow(table)
    return [] if found is None else found.to_pylist()


def test_a_file_declares_a_table_with_its_words_its_expectations_and_its_sources() -> None:
    made = parse("sql/totals.sql", TOTALS)
    assert (made.name, made.spec.holds, made.sources) == ("own.totals", "Messages by queue", ("gold.usage",))
    assert made.spec.rules == (Expectation("messages < 100", "messages < 100", "drop"),)


@pytest.mark.parametrize(("name", "text"), [("Big-Name", "SELECT 1"), ("ok", "-- expect panic: n > 0\nSELECT 1 AS n")])
def test_a_file_that_cannot_be_a_table_is_refused_by_name(lake: Lake, name: str, text: str) -> None:
    write(lake, name, text)
    with pytest.raises(BadArgument, match=name):
        own_tables(lake.storage)
    said = call("pipeline", "status", "--lake", str(lake.root))
    assert (said.code, f"{name}.sql" in said.err) == (1, True)


@pytest.mark.timeout(180)
def test_an_own_table_is_built_with_the_build_only_when_it_has_to_and_read_like_ours(
    spark: SparkSession, lake: Lake
) -> None:
    write(lake, "totals", TOTALS)
    assert call("pipeline", "sql", "SELECT * FROM own.totals", "--lake", str(lake.root)).code == 1  # not built yet
    assert step(build(lake, spark), "own.totals").state == "built"
    assert told(lake, "own.totals") == [{"queue": "emails", "messages": 3}]
    assert step(build(lake, spark), "own.totals").state == "unchanged"

    lake.commit(lake.stage_arrow("gold.usage", {NEW_DAY: rows(NEW_DAY, 4)}), instead=False)
    assert "own.totals" in {one.table for one in status(lake) if one.behind}
    assert step(build(lake, spark), "own.totals").state == "built"
    asked = ("SELECT messages FROM relevo_own.totals", "--lake", str(lake.root), "--json")
    assert call("pipeline", "sql", *asked).data == [{"messages": 7}]
    assert "relevo_own.totals" in lake.register(spark)
    assert [row["messages"] for row in spark.table("relevo_own.totals").collect()] == [7]

    # An edited file is built again, with other columns; a row too many is dropped and told.
    edited = TOTALS.replace("sum(messages) AS messages", "cast(sum(messages) AS double) AS messages, 'x' AS extra")
    write(lake, "totals", edited.replace("< 100", "< 5"))
    done = step(build(lake, spark), "own.totals")
    assert (done.state, done.warnings) == ("built", ("messages < 5: not so for 1 row (dropped)",))
    assert lake.log("own.totals").schema().names == ["queue", "messages", "extra"]
    assert told(lake, "own.totals") == []


@pytest.mark.timeout(180)
def test_a_query_that_fails_or_writes_stops_its_own_table_only(spark: SparkSession, lake: Lake) -> None:
    write(lake, "good", "SELECT count(*) AS n FROM relevo_gold.usage")
    write(lake, "bad", "SELECT nope FROM relevo_gold.usage")
    write(lake, "worse", "DROP TABLE relevo_gold.usage")
    with server() as (url, events):
        built = build(lake, spark, lineage=Lineage(url))
    assert {(one["job"]["name"], one["eventType"]) for _, _, one in events if one["inputs"]} == {
        ("relevo.build.own.good", "START"),
        ("relevo.build.own.good", "COMPLETE"),
    }
    assert {one.table: one.state for one in built.steps if one.table.startswith("own.")} == {
        "own.bad": "broken",
        "own.good": "built",
        "own.worse": "broken",
    }
    assert "nope" in step(built, "own.bad").reason
    assert told(lake, "own.good") == [{"n": 2}]
    said = call("pipeline", "status", "--lake", str(lake.root), "--json")
    assert said.code == 1
    found = {one["table"]: one["broken"] for one in json.loads(said.out)}
    assert found["own.bad"]
    assert not found["own.good"]


@pytest.mark.timeout(180)
def test_an_own_table_is_made_of_another_one_and_waits_for_it(spark: SparkSession, lake: Lake) -> None:
    write(lake, "totals", TOTALS)
    write(lake, "all_in_all", "SELECT sum(messages) AS messages FROM relevo_own.totals")
    built = build(lake, spark)
    assert [one.table for one in built.steps if one.table.startswith("own.")] == ["own.totals", "own.all_in_all"]
    assert step(built, "own.all_in_all").built_from == {"own.totals": lake.table("own.totals").version}
    assert told(lake, "own.all_in_all") == [{"messages": 3}]
    assert step(build(lake, spark), "own.all_in_all").state == "unchanged"

    # What the one is made of has changed, and so has the one, in columns too.
    lake.commit(lake.stage_arrow("gold.usage", {NEW_DAY: rows(NEW_DAY, 4)}), instead=False)
    write(lake, "totals", TOTALS.replace("SELECT queue", "SELECT 1 AS one, queue"))
    write(lake, "all_in_all", "SELECT sum(messages) AS messages, sum(one) AS queues FROM relevo_own.totals")
    assert step(build(lake, spark), "own.all_in_all").state == "built"
    assert told(lake, "own.all_in_all") == [{"messages": 7, "queues": 1}]

    lake.commit(lake.stage_arrow("gold.usage", {NEW_DAY: rows(NEW_DAY, 5)}), instead=True)
    write(lake, "all_in_all", "SELECT nope FROM relevo_own.totals")
    assert step(build(lake, spark), "own.all_in_all").state == "broken"
    assert {one.table: one.behind for one in status(lake)}["own.all_in_all"] == ("own.totals",)

    write(lake, "totals", "SELECT nope FROM relevo_gold.usage")
    built = build(lake, spark)
    assert (step(built, "own.totals").state, step(built, "own.all_in_all").state) == ("broken", "skipped")
    assert told(lake, "own.all_in_all") == [{"messages": 7, "queues": 1}]


@pytest.mark.timeout(180)
def test_tables_that_are_made_of_each_other_are_refused_and_the_others_built(spark: SparkSession, lake: Lake) -> None:
    write(lake, "hen", "SELECT * FROM relevo_own.egg")
    write(lake, "egg", "SELECT * FROM relevo_own.hen")
    write(lake, "chick", "SELECT * FROM relevo_own.egg")
    write(lake, "totals", TOTALS)
    built = build(lake, spark)
    states = {one.table: one.state for one in built.steps if one.table.startswith("own.")}
    assert states == {"own.hen": "broken", "own.egg": "broken", "own.chick": "skipped", "own.totals": "built"}
    assert "it is made of itself: own.hen of own.egg of own.hen" in step(built, "own.hen").reason


@pytest.mark.timeout(180)
def test_samples_of_an_own_table_hold_no_text_but_names(spark: SparkSession, lake: Lake) -> None:
    asked = "SELECT 'emails' AS queue, 'call me, Ada' AS note, map('a', 'Ada') AS told, 3 AS number"
    write(lake, "notes", f"-- expect warn: note IS NULL AND told IS NULL AND number = 4 AND queue = 'x'\n{asked}")
    assert step(build(lake, spark), "own.notes").state == "built"
    (samples,) = [row["samples"] for row in told(lake, "gold.expectations") if row["table_name"] == "own.notes"]
    assert json.loads(samples) == [{"queue": "emails", "number": 3}]
