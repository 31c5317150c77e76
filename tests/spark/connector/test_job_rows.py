"""Jobs as Arrow: envelopes are opened, and what cannot be opened is a row with its reason."""

import json
from typing import Any

import pytest

from relevo.pipeline.connector.job_rows import JobRows
from relevo.wire.dead import DeadLetterFields
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.frame import encode_frame
from relevo.wire.payload import encode_payload
from relevo.wire.retry import Backoff, RetryOverride
from tests.spark.connector.filled import arrow_schema


def rows_of(what: str, *entries: tuple[str, list[bytes]]) -> list[dict[str, Any]]:
    made = JobRows("{chasqui:mail}:stream", what, arrow_schema(what), raw_payload=False)
    return made.batch([[entry_id.encode(), fields] for entry_id, fields in entries]).to_pylist()


def envelope(data: Any = None, **more: Any) -> bytes:
    return Envelope("job-1", encode_payload(data, "mail"), 1_700_000_000_000, **more).encode()


def test_a_job_is_opened() -> None:
    retry = RetryOverride(5, Backoff("fixed", 250))
    (row,) = rows_of("stream", ("7-1", [b"d", envelope({"to": ["ada", 1]}, attempt=2, retry=retry), b"n", b"mail"]))
    assert (row["queue"], row["job_id"], row["name"], row["attempt"]) == ("mail", "job-1", "mail", 2)
    assert json.loads(row["data"]) == {"to": ["ada", 1]}
    assert row["created_at"].timestamp() == 1_700_000_000
    assert (row["retry"]["max_attempts"], row["retry"]["backoff"]["delay_ms"]) == (5, 250)
    assert (row["bad"], row["_id"]) == (None, "7-1")


def test_jobs_of_the_usual_shape_and_jobs_one_by_one_are_the_same_rows() -> None:
    retry = RetryOverride(5, Backoff("fixed", 250))
    usual = [
        ("7-1", [b"d", envelope({"to": "ada"}), b"n", b"mail"]),
        ("9999999999999999-0", [b"d", envelope(None, retry=retry), b"n", "grüße".encode()]),
        ("8-0", [b"d", Envelope("j", b"\xc0", 1 << 62, 1 << 63).encode(), b"n", b""]),
    ]
    odd = ("9-0", [b"n", b"mail", b"d", envelope(1)])
    together, apart = rows_of("stream", *usual), [rows_of("stream", each, odd)[0] for each in usual]
    assert together == apart
    assert (together[1]["_ts"], together[2]["created_at"], together[2]["attempt"]) == (None, None, None)
    assert together[1]["retry"]["max_attempts"] == 5


def test_a_dead_letter_says_why_and_where_from() -> None:
    fields = DeadLetterFields(envelope(), "mail", "3-0", "retries_exhausted", "boom").encode()
    (row,) = rows_of("dlq", ("9-0", fields))
    assert (row["reason"], row["detail"], row["source_id"], row["job_id"]) == (
        "retries_exhausted",
        "boom",
        "3-0",
        "job-1",
    )


def test_the_jobs_of_a_frame_are_rows_of_their_own() -> None:
    frame = encode_frame([(Envelope(f"job-{at}", encode_payload(at, ""), 5).encode(), b"mail") for at in range(3)])
    rows = rows_of("stream", ("4-0", [b"d", frame]), ("5-0", [b"d", frame[:-4]]))
    assert [(row["job_id"], row["name"], row["data"], row["_id"]) for row in rows[:3]] == [
        (f"job-{at}", "mail", str(at), "4-0") for at in range(3)
    ]
    assert "not a frame of jobs" in rows[3]["bad"]


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ([b"x", b"y"], "d is missing"),
        ([b"d", b"\xc1"], "not a job envelope"),
        ([b"d", Envelope("a", b"\xc1", 5).encode()], "not a msgpack payload"),
        ([b"d", envelope(), b"n", b"\xff"], "n is not UTF-8"),
    ],
)
def test_what_is_no_job_is_a_row_with_a_reason(fields: list[bytes], bad: str) -> None:
    (row,) = rows_of("stream", ("1-0", fields))
    assert bad in row["bad"]
    assert row["_id"] == "1-0"


def test_delayed_members_have_their_time() -> None:
    made = JobRows("{chasqui:mail}:delayed", "delayed", arrow_schema("delayed"), raw_payload=False)
    good = DelayedMember("mail", envelope({"i": 1})).encode()
    rows = made.delayed_batch([(good, b"1700000000000"), (b"", b"5")]).to_pylist()
    assert (rows[0]["name"], rows[0]["data"], rows[0]["run_at"].timestamp()) == ("mail", '{"i":1}', 1_700_000_000)
    assert "delayed member" in rows[1]["bad"]
