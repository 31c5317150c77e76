"""`relevo pipeline sql`, `upkeep`, `migrate` and `publish`: the commands on the lake's tables. No JVM here."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.tables import ALL
from tests.servers.child import Child
from tests.spark.lake.test_migration import old_table
from tests.spark.lake.test_report import gold
from tests.support.command_line import Said, call

OLD_DAY, NEW_DAY = 20_000, 80_000
"""In 2024, and so far ahead that it is never old."""


def rows(day: int, *messages: int) -> Any:
    at = datetime.fromtimestamp(day * 86_400, UTC)
    count = len(messages)
    return pa.table(
        {
            "day": pa.array([at] * count, pa.timestamp("us", tz="UTC")),
            "queue": ["emails"] * count,
            "messages": pa.array(messages, pa.int64()),
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two old rows and one new in gold.usage."""
    made = Lake(tmp_path / "lake")
    parts = {OLD_DAY: rows(OLD_DAY, 1, 2), NEW_DAY: rows(NEW_DAY, 4)}
    made.commit(made.stage_arrow("gold.usage", parts), instead=False)
    return made


def on(lake: Lake, *arguments: str, stdin: str = "") -> Said:
    name, *rest = arguments
    return call("pipeline", name, "--lake", str(lake.root), *rest, stdin=stdin)


def messages(lake: Lake) -> list[int]:
    return sorted(lake.arrow("gold.usage", columns=["messages"])["messages"].to_pylist())


@pytest.mark.parametrize("command", [("sql", "SELECT 1"), ("upkeep",), ("migrate",), ("publish", "--iceberg")])
def test_where_no_lake_is_every_command_says_so_and_makes_none(tmp_path: Path, command: tuple[str, ...]) -> None:
    said = on(Lake(tmp_path / "none"), *command)
    assert (said.code, said.out) == (1, "")
    assert "There is no lake at" in said.err
    assert not (tmp_path / "none").exists()


WITHOUT_SPARK = """
import json, sys

class NotThere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "numpy", "pandas"):
            raise ModuleNotFoundError(f"{name} is not there", name=name)

sys.meta_path.insert(0, NotThere())
from typer.testing import CliRunner
from relevo.cli import app
import relevo.pipeline.commands.archive
from relevo.spark import Lake, report

for call in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, ["pipeline", *call])
    print(json.dumps([done.exit_code, done.stdout, repr(done.exception)]))
"""


def test_who_works_on_tables_needs_no_pyspark(tmp_path: Path) -> None:
    """In a Python that cannot import it. pyiceberg, for `publish`, has needs of its own."""
    query = "SELECT sum(messages) AS messages FROM gold.usage"
    page = tmp_path / "report.html"
    calls = [["sql", query, "--json"], ["status"], ["upkeep", "--json"], ["migrate"], ["report", "--to", str(page)]]
    where = ["--lake", str(gold(tmp_path / "lake").root)]
    done = Child.run(sys.executable, "-c", WITHOUT_SPARK, json.dumps([[*call, *where] for call in calls]))
    assert (done.code, done.err) == (0, "")
    said = [json.loads(line) for line in done.out.splitlines()]
    assert [(code, error) for code, _, error in said] == [(0, "None")] * len(calls)
    assert json.loads(said[0][1]) == [{"messages": 1200}]
    assert page.exists()


# --- sql -----------------------------------------------------------------------------------------------------------------


def test_sql_shows_a_table_to_people_and_says_how_many_rows_it_kept_back(lake: Lake) -> None:
    said = on(lake, "sql", "SELECT queue, messages FROM relevo_gold.usage ORDER BY messages", "--limit", "2")
    assert said.code == 0
    assert "emails" in said.out
    assert "1 more rows: --limit shows them" in said.out


def test_sql_gives_programs_every_row_as_json(lake: Lake) -> None:
    asked = "SELECT day, messages, null AS none FROM gold.usage ORDER BY messages"
    found = on(lake, "sql", asked, "--limit", "1", "--json").data
    assert [row["messages"] for row in found] == [1, 2, 4]
    assert (found[0]["day"], found[0]["none"]) == ("2024-10-04 00:00:00+00:00", None)


def test_sql_that_finds_nothing_is_no_error(lake: Lake) -> None:
    asked = "SELECT queue FROM gold.usage WHERE messages > 100"
    assert on(lake, "sql", asked, "--json").data == []
    assert on(lake, "sql", asked).code == 0


@pytest.mark.parametrize("table", [spec.name for spec in ALL if spec.name != "gold.usage"])
def test_sql_of_a_table_that_nobody_has_written_yet_finds_no_rows(lake: Lake, table: str) -> None:
    found = lake.sql(f"SELECT * FROM relevo_{table}")  # noqa: S608
    spec = lake.spec(table)
    assert found.column_names == [*(column.name for column in spec.columns), *spec.partition_columns]
    assert found.num_rows == 0


@pytest.mark.parametrize(
    "wrong", ["SELEKT 1", "SELECT nope FROM gold.usage", "SELECT * FROM gold.nothing", "DROP TABLE gold.usage", ""]
)
def test_sql_that_cannot_be_answered_is_one_line_that_names_the_tables(lake: Lake, wrong: str) -> None:
    said = on(lake, "sql", wrong, "--json")
    assert (said.code, said.out) == (1, "")
    assert len(said.err.splitlines()) == 1
    assert "relevo_gold.usage" in said.err
    assert messages(lake) == [1, 2, 4]


def test_sql_refuses_a_limit_of_none(lake: Lake) -> None:
    assert on(lake, "sql", "SELECT 1", "--limit", "0").code == 2


# --- upkeep --------------------------------------------------------------------------------------------------------------


def test_upkeep_removes_the_days_that_are_older_than_asked(lake: Lake) -> None:
    said = on(lake, "upkeep", "--keep", "gold.usage=90d", "--yes", "--json")
    assert said.data == {"removed_rows": {"gold.usage": 2}, "merged_files": 0, "deleted_files": 0}
    assert messages(lake) == [4]


def test_upkeep_asks_before_it_removes_and_a_no_changes_nothing(lake: Lake) -> None:
    said = on(lake, "upkeep", "--keep", "gold.usage=90", stdin="n\n")
    assert said.code == 1
    assert "remove rows of gold.usage older than 90 days?" in said.err
    assert messages(lake) == [1, 2, 4]
    assert on(lake, "upkeep", "--keep", "gold.usage=90", stdin="y\n").code == 0
    assert messages(lake) == [4]


def test_upkeep_without_keep_asks_nothing_and_removes_no_row(lake: Lake) -> None:
    said = on(lake, "upkeep")
    assert (said.code, said.out) == (0, "0 small files merged, 0 old files deleted\n")
    assert messages(lake) == [1, 2, 4]


@pytest.mark.parametrize(
    "wrong", ["gold.usage", "gold.usage=", "gold.usage=soon", "gold.usage=-1d", "gold.nothing=9d", "silver.jobs=9d"]
)
def test_upkeep_refuses_a_table_or_an_age_it_does_not_know_before_it_does_anything(lake: Lake, wrong: str) -> None:
    said = on(lake, "upkeep", "--keep", "gold.usage=90d", "--keep", wrong, "--yes")
    assert said.code == 1
    assert "Write bronze.events=90d" in said.err
    assert messages(lake) == [1, 2, 4]


# --- migrate -------------------------------------------------------------------------------------------------------------


def test_migrate_brings_an_old_lake_over_and_says_what_it_did(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    old_table(lake.root, "bronze.events", ["2026-11-15", "2026-11-16"])
    old_table(lake.root, "gold.usage", ["2026-11-15"])
    assert on(lake, "migrate", "--json").data == {"tables": 1, "files": 2, "rows": 2, "to_build": ["gold.usage"]}
    assert on(lake, "sql", "SELECT count(*) AS n FROM bronze.events", "--json").data == [{"n": 2}]


def test_migrate_has_nothing_to_do_in_a_lake_that_is_delta(lake: Lake) -> None:
    said = on(lake, "migrate")
    assert (said.code, said.out) == (0, "every table is a Delta table already\n")
    assert messages(lake) == [1, 2, 4]


# --- publish -------------------------------------------------------------------------------------------------------------


def test_publish_shows_every_table_with_rows_as_iceberg(lake: Lake) -> None:
    assert on(lake, "publish", "--iceberg", "--json").data == {"relevo_gold.usage": 3}
    assert on(lake, "publish", "--iceberg").out == "relevo_gold.usage: 3 rows\n"


def test_publish_wants_to_be_told_the_format(lake: Lake) -> None:
    said = on(lake, "publish")
    assert said.code == 1
    assert "Write --iceberg" in said.err
    assert not (lake.root / "_iceberg").exists()


def test_publish_says_when_pyiceberg_does_not_know_the_catalog(lake: Lake) -> None:
    said = on(lake, "publish", "--iceberg", "--catalog", "nowhere")
    assert said.code == 1
    assert len(said.err.splitlines()) == 1
    assert "'nowhere'" in said.err
