"""The repeat spec's bytes: those PyPI's chasquimq 1.3.0 wrote, those msgpack would write, and what is refused."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo.errors import Undecodable
from relevo.wire.repeat import CronPattern, EveryPattern, FireAll, MissedFires, Pattern, RepeatSpec, derived_key
from relevo.wire.retry import Backoff, RetryOverride

_pack: Any = msgpack.packb  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

PAYLOAD = bytes.fromhex("81a17801")  # {"x": 1}

# Captured from chasquimq 1.3.0: Queue.upsert_repeatable_job("j", {"x": 1}, ...) and HGET of the spec.
CAPTURED = [
    (
        RepeatSpec("j::every:5000", "j", EveryPattern(5000), PAYLOAD),
        "98ad6a3a3a65766572793a35303030a16a81a5457665727991cd1388c406c40481a17801c0c0c000",
    ),
    (
        RepeatSpec("j::every:5000", "j", EveryPattern(5000), PAYLOAD, limit=3),
        "98ad6a3a3a65766572793a35303030a16a81a5457665727991cd1388c406c40481a1780103c0c000",
    ),
    (
        RepeatSpec("j::cron:0 9 * * *:", "j", CronPattern("0 9 * * *", ""), PAYLOAD),
        "98b26a3a3a63726f6e3a302039202a202a202a3aa16a81a443726f6e92a9302039202a202a202aa0c406c40481a17801c0c0c000",
    ),
    (
        RepeatSpec(
            "j::every:5000",
            "j",
            EveryPattern(5000),
            PAYLOAD,
            limit=0,
            start_after_ms=1_900_000_000_000,
            end_before_ms=2_000_000_000_000,
            missed_fires="FireOnce",
        ),
        (
            "99ad6a3a3a65766572793a35303030a16a81a5457665727991cd1388c406c40481a1780100"
            "cf000001ba60d33800cf000001d1a94a200000a8466972654f6e6365"
        ),
    ),
    (
        RepeatSpec(
            "j::cron:0 9 * * *:Europe/Madrid",
            "j",
            CronPattern("0 9 * * *", "Europe/Madrid"),
            PAYLOAD,
            missed_fires=FireAll(3),
        ),
        (
            "99bf6a3a3a63726f6e3a302039202a202a202a3a4575726f70652f4d6164726964a16a81a443726f6e92a9302039202a202a202a"
            "ad4575726f70652f4d6164726964c406c40481a17801c0c0c00081a746697265416c6c9103"
        ),
    ),
]

UINT = st.integers(min_value=0, max_value=2**64 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
PATTERNS: st.SearchStrategy[Pattern] = st.one_of(
    st.builds(CronPattern, TEXT, st.none() | TEXT), st.builds(EveryPattern, UINT)
)
MISSED: st.SearchStrategy[MissedFires] = st.one_of(
    st.just("Skip"), st.just("FireOnce"), st.builds(FireAll, st.integers(0, 2**32 - 1))
)
BACKOFFS = st.builds(
    Backoff,
    TEXT,
    UINT,
    st.none() | UINT,
    st.none() | st.floats(allow_nan=False),
    st.none() | UINT,
)
RETRIES = st.builds(RetryOverride, st.none() | UINT, st.none() | BACKOFFS)
SPECS = st.builds(
    RepeatSpec,
    key=TEXT,
    job_name=TEXT,
    pattern=PATTERNS,
    payload=st.binary(max_size=70_000),
    limit=st.none() | UINT,
    start_after_ms=st.none() | UINT,
    end_before_ms=st.none() | UINT,
    missed_fires=MISSED,
    retry=st.none() | RETRIES,
)


def plain(spec: RepeatSpec) -> list[object]:
    """The spec as the lists and dicts of wire.md, written without looking at the code under test."""
    pattern = spec.pattern
    elements: list[object] = [
        spec.key,
        spec.job_name,
        {"Cron": [pattern.expression, pattern.tz]}
        if isinstance(pattern, CronPattern)
        else {"Every": [pattern.interval_ms]},
        _pack(spec.payload, use_bin_type=True),
        spec.limit,
        spec.start_after_ms,
        spec.end_before_ms,
        0,
    ]
    missed = spec.missed_fires
    if missed != "Skip" or spec.retry is not None:
        elements.append({"FireAll": [missed.max_catchup]} if isinstance(missed, FireAll) else missed)
    if spec.retry is not None:
        backoff = spec.retry.backoff
        elements.append(
            [
                spec.retry.max_attempts,
                backoff
                and [backoff.kind, backoff.delay_ms, backoff.max_delay_ms, backoff.multiplier, backoff.jitter_ms],
            ]
        )
    return elements


@pytest.mark.parametrize(("spec", "captured"), CAPTURED)
def test_a_spec_has_the_bytes_that_chasquimq_wrote(spec: RepeatSpec, captured: str) -> None:
    assert spec.encode().hex() == captured


@pytest.mark.parametrize(("spec", "captured"), CAPTURED)
def test_the_bytes_that_chasquimq_wrote_are_read(spec: RepeatSpec, captured: str) -> None:
    assert RepeatSpec.decode(bytes.fromhex(captured)) == spec


@given(SPECS)
def test_a_spec_has_the_bytes_that_msgpack_would_write(spec: RepeatSpec) -> None:
    assert spec.encode() == _pack(plain(spec), use_bin_type=True)


@given(SPECS)
def test_what_was_written_is_read_back(spec: RepeatSpec) -> None:
    assert RepeatSpec.decode(spec.encode()) == spec


@pytest.mark.parametrize(
    ("missed_fires", "retry", "elements"),
    [
        ("Skip", None, 8),
        ("FireOnce", None, 9),
        (FireAll(1), None, 9),
        ("Skip", RetryOverride(3), 10),
        (FireAll(1), RetryOverride(3), 10),
    ],
)
def test_a_spec_is_as_short_as_its_content_allows(
    missed_fires: MissedFires, retry: RetryOverride | None, elements: int
) -> None:
    spec = RepeatSpec("k", "j", EveryPattern(1), b"", missed_fires=missed_fires, retry=retry)
    assert spec.encode()[0] == 0x90 + elements


@pytest.mark.parametrize("tail", [["Skip"], [None], ["Skip", None], [None, None]])
def test_nine_and_ten_elements_that_say_nothing_are_read_like_eight(tail: list[object]) -> None:
    eight = RepeatSpec("k", "j", EveryPattern(1), b"")
    assert RepeatSpec.decode(_pack([*plain(eight), *tail])) == eight


def test_a_retry_without_backoff_keeps_both_slots() -> None:
    spec = RepeatSpec("k", "j", EveryPattern(1), b"", retry=RetryOverride(3))
    assert spec.encode().endswith(bytes.fromhex("9203c0"))


def altered(position: int, value: object) -> bytes:
    elements = plain(RepeatSpec("k", "j", EveryPattern(5), b"", missed_fires="FireOnce"))
    elements[position] = value
    return _pack(elements)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(b"", "truncated", id="nothing"),
        pytest.param(b"\xc1", "", id="no msgpack"),
        pytest.param(_pack(["k"] * 7), "", id="seven elements"),
        pytest.param(_pack([*plain(CAPTURED[0][0]), None, None, None]), "length 10", id="eleven elements"),
        pytest.param(CAPTURED[0][0].encode() + b"\x00", "", id="something behind it"),
        pytest.param(altered(0, 7), "str", id="a key that is no text"),
        pytest.param(altered(2, {}), "Cron and Every", id="no pattern"),
        pytest.param(altered(2, {"Every": [5], "Cron": ["* * * * *", None]}), "Cron and Every", id="two patterns"),
        pytest.param(altered(2, {"Never": []}), "Never", id="an unknown pattern"),
        pytest.param(altered(2, {"Every": [-5]}), "interval_ms is -5", id="a negative interval"),
        pytest.param(altered(3, b"\x81\xa1x\x01"), "bytes", id="a payload that is in one bin only"),
        pytest.param(altered(4, -1), "limit is -1", id="a negative limit"),
        pytest.param(altered(5, -1), "start_after_ms is -1", id="a negative start"),
        pytest.param(altered(6, -1), "end_before_ms is -1", id="a negative end"),
        pytest.param(altered(8, "FireTwice"), "FireTwice", id="an unknown policy"),
        pytest.param(altered(8, {"FireAll": [-1]}), "max_catchup is -1", id="a negative catch-up"),
        pytest.param(altered(8, {"FireAll": []}), "", id="a catch-up without its number"),
    ],
)
def test_bytes_that_are_no_spec_are_refused_with_the_reason(data: bytes, told: str) -> None:
    with pytest.raises(Undecodable, match="not a repeat spec") as caught:
        RepeatSpec.decode(data)
    assert told in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_spec_or_undecodable(data: bytes) -> None:
    with contextlib.suppress(Undecodable):
        RepeatSpec.decode(data)


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        (CronPattern("0 9 * * *"), "j::cron:0 9 * * *:UTC"),
        (CronPattern("0  9 * * *", "utc"), "j::cron:0  9 * * *:utc"),
        (CronPattern("0 9 * * *", ""), "j::cron:0 9 * * *:"),
        (CronPattern("0 9 * * 1", "Europe/Madrid"), "j::cron:0 9 * * 1:Europe/Madrid"),
        (EveryPattern(60_000), "j::every:60000"),
    ],
)
def test_a_schedule_without_a_key_gets_one_of_its_name_and_pattern_verbatim(pattern: Pattern, key: str) -> None:
    assert derived_key("j", pattern) == key
