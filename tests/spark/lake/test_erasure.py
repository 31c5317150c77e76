"""What an erased message's job said goes from every table of the lake."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Table, insert

from relevo.pipeline.commands.build import build
from relevo.pipeline.commands.erasure import Erasure
from relevo.pipeline.connector.landing import events_schema
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.tables import ALL
from relevo.pipeline.lake.upkeep import vacuum
from relevo.wire.ids import IdMint
from relevo.work.store.database import Database
from relevo.work.store.tables import erased, erasures, metadata, scopes, tenants
from tests.spark.lake.happenings import START, Happenings
from tests.spark.lake.test_build import ingest

WORD = "Zyxomma"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'work.db'}")
    async with made.begin() as connection:
        await connection.run_sync(metadata.create_all)
    yield made
    await made.close()


def _filled(table: Table) -> dict[str, Any]:
    needed = [column for column in table.columns if not column.nullable]
    return {column.name: "x" if column.type.python_type is str else 1 for column in needed}


async def erase(database: Database, message_id: str) -> None:
    """As an erasure leaves it in SQL."""
    async with database.begin() as connection:
        await connection.execute(insert(tenants).values(**_filled(tenants)))
        await connection.execute(insert(scopes).values(**_filled(scopes) | {"state": "active"}))
        await connection.execute(insert(erasures).values(**_filled(erasures) | {"id": "e1", "state": "done"}))
        await connection.execute(insert(erased).values(erasure_id="e1", message_id=message_id))


def said(lake: Lake) -> str:
    """Everything that any file says, also those that no version of a table names any more."""
    return "".join(str(pq.read_table(file, partitioning=None).to_pylist()) for file in lake.root.rglob("*.parquet"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportArgumentType]


async def test_what_silver_is_made_of_stays_in_the_events_of_an_erased_message(
    database: Database, tmp_path: Path
) -> None:
    lake, mine = Lake(tmp_path / "lake"), IdMint()(START)
    kept = {"worker": "w-1", "to": "billing/invoices", "subscription": "ledger", "decision": "approve"}
    told = [
        ("routed", {"to": kept["to"], "why": f"label {WORD}"}),
        ("claimed", {"worker": kept["worker"], "subscription": kept["subscription"]}),
        ("review_decided", {"decision": kept["decision"], "review": WORD}),
    ]
    rows = [dict.fromkeys(events_schema().names) | {"e": e, "id": mine, "rest": list(rest.items())} for e, rest in told]
    for row in rows:
        row["reason"] = f"said {WORD}"
    table = pa.Table.from_pylist(rows, events_schema())  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    lake.commit(lake.stage_arrow("bronze.events", {START // 86_400_000: table}), instead=False)
    await erase(database, mine)
    assert (await Erasure(lake, database).run()).events == 3
    found: Any = lake.arrow("bronze.events").to_pylist()
    assert [dict(row["rest"]) for row in sorted(found, key=lambda row: [e for e, _ in told].index(row["e"]))] == [
        {"to": kept["to"]},
        {"worker": kept["worker"], "subscription": kept["subscription"]},
        {"decision": kept["decision"]},
    ]
    assert WORD not in said(lake)
    assert (await Erasure(lake, database).run()).events == 0  # nothing is left to say


@pytest.mark.whole  # two builds; that an erasure leaves no word in bronze and silver is shown above
@pytest.mark.timeout(240)
async def test_the_reasons_of_an_erased_message_s_job_go_from_every_table_and_its_numbers_stay(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    lake, story = Lake(tmp_path / "lake"), Happenings()
    mine, other = IdMint()(START), IdMint()(START + 1)
    for job, reason in ((f"{mine}.2", f"no {WORD} here"), (other, "no route")):
        story.tell(START + 10, "active", job, attempt=1)
        story.tell(START + 20, "failed", job, attempt=1, reason=reason, duration_us=10, rest={"about": reason})
        story.tell(START + 21, "dlq", job, attempt=1, reason=reason)
    ingest(lake, spark, story.rows)
    build(lake, spark)
    assert WORD in said(lake)
    await erase(database, mine)
    done = await Erasure(lake, database).run()
    assert done.events == 4  # two events, in bronze and in silver
    build(lake, spark)
    for spec in ALL:
        vacuum(lake, spec.name, kept_days=0)
    assert WORD not in said(lake)
    rows: Any = lake.arrow("silver.jobs")
    assert sorted(row["outcome"] for row in rows.to_pylist()) == ["dead", "dead"]
    failures: Any = lake.arrow("gold.failures")
    assert {"erased", "no route"} <= {row["reason"] for row in failures.to_pylist()}
