"""Options: what is wrong is named before anything runs, and secrets stay out of sight."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from relevo.errors import BadArgument, BadUrl
from relevo.pipeline.connector.offsets import EntryId
from relevo.pipeline.connector.options import SinkOptions, SourceOptions, just_before


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("what", "jobs"),
        ("payload", "xml"),
        ("maxRowsPerTrigger", "0"),
        ("maxRowsPerTrigger", "many"),
        ("failOnDataLoss", "perhaps"),
        ("startingOffsets", "yesterday"),
        ("startingOffsets", '{"a": 5}'),
        ("startingOffsets", '{"a": "yesterday"}'),
        ("startingOffsets", '{"a": '),
        ("minRowsPerTrigger", "none"),
        ("queues", " , "),
        ("maxRowPerTrigger", "5"),
        ("passwordEnv", "NO_SUCH_VARIABLE"),
        ("passwordFile", "/no/such/file"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: str) -> None:
    with pytest.raises(BadArgument):
        SourceOptions.parse({option: value})


def test_options_are_known_in_any_case() -> None:
    source = SourceOptions.parse({"QUEUES": "a, b", "What": "dlq", "failondataloss": "FALSE"})
    assert (source.queues, source.what, source.fail_on_data_loss) == (("a", "b"), "dlq", False)


def test_a_sink_needs_a_queue() -> None:
    with pytest.raises(BadArgument, match="rows need a queue"):
        SinkOptions.parse({})


def test_offsets_may_name_queues_or_streams() -> None:
    source = SourceOptions.parse({"startingOffsets": '{"a": "5-1", "{chasqui:b}:events": "6"}'})
    assert source.starting == {"{chasqui:a}:events": EntryId(5, 1), "{chasqui:b}:events": EntryId(6)}


def test_each_queue_may_begin_at_a_place_of_its_own() -> None:
    source = SourceOptions.parse({"startingOffsets": '{"a": "latest", "b": "2026-11-01", "c": "7-1"}'})
    assert source.starting == {
        "{chasqui:a}:events": "latest",
        "{chasqui:b}:events": datetime(2026, 11, 1, tzinfo=UTC),
        "{chasqui:c}:events": EntryId(7, 1),
    }


def test_fewest_rows_above_the_most_are_refused() -> None:
    with pytest.raises(BadArgument, match="more than maxRowsPerTrigger"):
        SourceOptions.parse({"minRowsPerTrigger": "9", "maxRowsPerTrigger": "8"})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://:sesame@localhost:6380", "127.0.0.1:6380"),
        ("rediss://ada:sesame@cache.example:7000/3", "cache.example:7000/3"),
        ("redis+sentinel://one:26379,two:26379/mymaster", "mymaster"),
        ("redis+cluster://two:7000,one:7000", "one:7000"),
        ("unix:///run/redis.sock", "/run/redis.sock"),
    ],
)
def test_a_source_without_a_name_is_called_by_its_address(url: str, name: str) -> None:
    assert SourceOptions.parse({"url": url}).source == name
    assert SourceOptions.parse({"url": url, "source": "eu-1"}).source == "eu-1"


def test_a_time_means_everything_from_then_on() -> None:
    source = SourceOptions.parse({"startingOffsets": "2026-11-01T00:00:00.0005Z"})
    assert source.starting == datetime(2026, 11, 1, 0, 0, 0, 500, UTC)
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    assert just_before(moment).ms == int(moment.timestamp() * 1000) - 1


def test_the_password_may_come_from_the_environment_or_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "open")
    (tmp_path / "password").write_text("sesame\n")
    by_env = SourceOptions.parse({"url": "redis://host", "passwordEnv": "SOME_PASSWORD"})
    by_file = SourceOptions.parse({"url": "redis://host", "passwordFile": str(tmp_path / "password")})
    assert [each.connection.address().password for each in (by_env, by_file)] == ["open", "sesame"]


def test_no_text_form_holds_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "sesame")
    for options in ({"url": "redis://:sesame@host"}, {"url": "redis://host", "passwordEnv": "SOME_PASSWORD"}):
        assert "sesame" not in repr(SourceOptions.parse(options))
    with pytest.raises(BadUrl) as caught:
        SourceOptions.parse({"url": "redis://:sesame@host:nine"})
    assert "sesame" not in str(caught.value)


def test_a_table_in_a_catalog_is_refused_with_what_works_instead() -> None:
    given = {"option.url": "redis://127.0.0.1:1", "url": "redis://127.0.0.1:1", "provider": "relevo", "owner": "ada"}
    with pytest.raises(BadArgument, match="CREATE TEMPORARY VIEW"):
        SourceOptions.parse(given)
