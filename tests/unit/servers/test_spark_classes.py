"""How the JVMs of the tests are started."""

from pathlib import Path

import pytest

from tests.servers import spark_classes
from tests.servers.spark_classes import SHORT_LIVED, start_options


def test_an_archive_is_named_only_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "spark.jsa"
    monkeypatch.setattr(spark_classes, "archive", lambda: made)
    assert start_options(short_lived=False) == ""
    assert start_options(short_lived=True) == SHORT_LIVED
    made.touch()
    assert start_options(short_lived=False).startswith(f"-XX:SharedArchiveFile={made} ")


def test_what_hinders_the_archive_is_said_and_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_classes, "archive", lambda: tmp_path / "spark.jsa")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert spark_classes.provide_archive() == "not made (no word): sessions start slower"
    assert not list(tmp_path.iterdir())
