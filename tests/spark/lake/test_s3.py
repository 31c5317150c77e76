"""A lake on S3: `moto`'s server on loopback stands in for it. The log and the data files need no JVM."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false, reportMissingTypeStubs=false

import logging
import sys
from collections.abc import Generator

import boto3
import pytest

from relevo.errors import LakeChanged
from relevo.pipeline.commands.status import status
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.upkeep import compact, vacuum
from tests.servers.child import Child
from tests.servers.process import free_port
from tests.servers.server import Server
from tests.spark.connector.filled import add_events
from tests.spark.lake.readers import facts, readers, written
from tests.spark.lake.test_delta import DAY, USAGE, add, staged, told
from tests.support.command_line import COMMAND

SECRET = "not-for-any-log"


@pytest.fixture(scope="module")
def endpoint() -> Generator[str]:
    """In a process of its own: a reader that waits for it must not hold what it needs to answer."""
    port = free_port()
    with Child(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port), merged=True) as server:
        server.wait_for("Running on")
        yield f"http://127.0.0.1:{port}"
        server.kill()


@pytest.fixture
def lake(endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Lake:
    settings = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    for name, value in {**settings, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="lakes")
    return Lake(f"s3://lakes/{request.node.name}")


def test_rows_are_added_replaced_and_told_apart_by_version(lake: Lake) -> None:
    add(lake, 1)
    seen = lake.table(USAGE).version
    lake.commit(staged(lake, 2, day=DAY + 1), instead=False, notes={"n": 1})
    assert lake.changes(USAGE, seen).keys == {"2024-10-05"}
    lake.commit(staged(lake, 3), instead=True)
    assert (told(lake), lake.notes(USAGE)) == ([2, 3], {"n": 1})


@pytest.mark.whole  # the same code meets writers of a folder in test_delta.py
def test_appends_from_one_base_are_both_kept_and_of_two_replacements_one_is_told(lake: Lake) -> None:
    first, second, base = staged(lake, 1), staged(lake, 2), lake.table(USAGE)
    for new in (first, second):
        lake.commit(new, instead=False, base=base)
    assert told(lake) == [1, 2]
    first, second, base = staged(lake, 1), staged(lake, 2), lake.table(USAGE)
    lake.commit(first, instead=True, base=base)
    with pytest.raises(LakeChanged):
        lake.commit(second, instead=True, base=base)
    assert told(lake) == [1]


@pytest.mark.whole  # the same code merges the files of a folder in test_delta.py
def test_small_files_are_merged_and_old_ones_deleted(lake: Lake) -> None:
    add(lake, 1)
    add(lake, 2)
    assert compact(lake, USAGE, least=2).after == 1
    assert vacuum(lake, USAGE) == 0
    assert vacuum(lake, USAGE, kept_days=0) == 2
    assert told(lake) == [1, 2]


@pytest.mark.whole  # they read a folder in test_build.py
def test_deltalake_duckdb_polars_and_datafusion_read_the_same(lake: Lake) -> None:
    add(lake, 1, 2)
    add(lake, 3, colour="red")
    found = {name: facts(read(USAGE)) for name, read in readers(lake).items()}
    assert sum(found["deltalake"].values()) == 3
    assert [name for name, rows in found.items() if rows != found["deltalake"]] == []


def test_no_credential_is_told(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    add(lake, 1)
    (usage,) = (one for one in status(lake) if one.version)
    assert SECRET not in f"{lake.storage!r} {usage!r} {lake.table(USAGE)!r} {caplog.text}"


@pytest.mark.whole  # a JVM of its own, whose tasks find the credentials in the environment
@pytest.mark.timeout(300)
def test_spark_ingests_and_builds_on_s3_without_a_jar(lake: Lake, redis86: Server, queue_name: str) -> None:
    ids = add_events(redis86.url, queue_name, 400)
    arguments = ("--lake", lake.storage.uri, "--queues", queue_name, "--redis-url", redis86.url)
    for new in (ids, add_events(redis86.url, queue_name, 40)):
        made = Child.run(*COMMAND, "pipeline", "ingest", *arguments, timeout=120)
        assert made.code == 0, made.err
        bronze = lake.arrow("bronze.events", columns=["_id"])["_id"].to_pylist()
        assert set(new) <= set(bronze)
    assert len(bronze) == len(set(bronze)) == 440
    built = Child.run(*COMMAND, "pipeline", "build", "--lake", lake.storage.uri, timeout=120)
    assert built.code == 0, built.err
    for name in written(lake):
        found = {reader: facts(read(name)) for reader, read in readers(lake).items()}
        assert [reader for reader, rows in found.items() if rows != found["deltalake"]] == [], name
    assert "gold.throughput" in written(lake)
    assert SECRET not in made.out + made.err + built.out + built.err
