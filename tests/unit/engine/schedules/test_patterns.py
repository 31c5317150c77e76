"""Patterns, policies and listings as their owner writes and reads them: the same as PyPI's chasquimq."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from relevo.engine.schedules.patterns import MissedFiresPolicy, RepeatableMeta, RepeatPattern
from relevo.errors import BadArgument, BadInterval, WrongType
from relevo.wire.repeat import CronPattern, EveryPattern, FireAll, MissedFires, Pattern, RepeatSpec

CRON = RepeatPattern.cron("0 9 * * *", tz="Europe/Madrid")
EVERY = RepeatPattern.every(60_000)
POLICIES: list[tuple[MissedFiresPolicy, dict[str, Any], MissedFires]] = [
    (MissedFiresPolicy.skip(), {"kind": "skip"}, "Skip"),
    (MissedFiresPolicy.fire_once(), {"kind": "fire-once"}, "FireOnce"),
    (MissedFiresPolicy.fire_all(7), {"kind": "fire-all", "max_catchup": 7}, FireAll(7)),
]


def test_a_cron_pattern_says_its_kind_expression_and_zone() -> None:
    assert repr(CRON) == "RepeatPattern(kind='cron', expression='0 9 * * *', tz='Europe/Madrid', interval_ms=None)"


def test_an_interval_pattern_says_its_kind_and_interval() -> None:
    assert repr(EVERY) == "RepeatPattern(kind='every', expression=None, tz=None, interval_ms=60000)"


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        (CRON, {"kind": "cron", "expression": "0 9 * * *", "tz": "Europe/Madrid"}),
        (RepeatPattern.cron("0 9 * * *"), {"kind": "cron", "expression": "0 9 * * *"}),
        (EVERY, {"kind": "every", "interval_ms": 60_000}),
    ],
)
def test_a_pattern_and_its_dict_are_one(pattern: RepeatPattern, form: dict[str, Any]) -> None:
    assert pattern.to_dict() == form
    assert RepeatPattern.of(form) == pattern


def test_a_pattern_is_taken_as_it_is() -> None:
    assert RepeatPattern.of(CRON) is CRON


def test_a_whole_float_from_json_is_an_interval() -> None:
    assert RepeatPattern.of({"kind": "every", "interval_ms": 500.0}) == RepeatPattern.every(500)


@pytest.mark.parametrize(
    ("pattern", "wire"), [(CRON, CronPattern("0 9 * * *", "Europe/Madrid")), (EVERY, EveryPattern(60_000))]
)
def test_a_pattern_goes_to_the_wire_and_back(pattern: RepeatPattern, wire: Pattern) -> None:
    assert pattern.to_wire() == wire
    assert RepeatPattern.from_wire(wire) == pattern


@pytest.mark.parametrize("interval", [0, -1, 1.5, True, "60000", None, 10**13 + 1])
def test_an_interval_that_is_no_positive_number_of_milliseconds_is_refused_by_name(interval: Any) -> None:
    with pytest.raises(BadInterval) as caught:
        RepeatPattern.every(interval).to_wire()
    assert repr(interval) in str(caught.value)


@pytest.mark.parametrize("form", [{}, {"kind": None}, {"kind": "weekly"}])
def test_a_pattern_of_unknown_kind_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match="Write 'cron' or 'every'"):
        RepeatPattern.of(form)


@pytest.mark.parametrize("form", [{"kind": "cron"}, {"kind": "every"}])
def test_a_dict_that_lacks_its_value_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match="Add '"):
        RepeatPattern.of(form)


@pytest.mark.parametrize("value", ["0 9 * * *", 60_000, None])
def test_what_is_neither_pattern_nor_dict_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="RepeatPattern"):
        RepeatPattern.of(value)


def test_a_pattern_of_unknown_kind_has_no_other_forms() -> None:
    unknown = RepeatPattern("weekly")
    with pytest.raises(ValueError, match="weekly"):
        unknown.to_dict()
    with pytest.raises(ValueError, match="weekly"):
        unknown.to_wire()


@pytest.mark.parametrize("pattern", [RepeatPattern("cron"), RepeatPattern("cron", expression="* * * * *", tz=3)])  # pyright: ignore[reportArgumentType]
def test_an_expression_or_zone_that_is_no_text_is_refused(pattern: RepeatPattern) -> None:
    with pytest.raises(WrongType, match="expected str, got "):
        pattern.to_wire()


@pytest.mark.parametrize(("policy", "form", "wire"), POLICIES)
def test_a_policy_and_its_dict_are_one(policy: MissedFiresPolicy, form: dict[str, Any], wire: MissedFires) -> None:
    assert policy.to_dict() == form
    assert MissedFiresPolicy.of(form) == policy


@pytest.mark.parametrize(("policy", "form", "wire"), POLICIES)
def test_a_policy_goes_to_the_wire_and_back(policy: MissedFiresPolicy, form: dict[str, Any], wire: MissedFires) -> None:
    assert policy.to_wire() == wire
    assert MissedFiresPolicy.from_wire(wire) == policy


def test_no_policy_is_skip() -> None:
    assert MissedFiresPolicy.of(None) == MissedFiresPolicy.skip()


def test_a_policy_is_taken_as_it_is() -> None:
    policy = MissedFiresPolicy.fire_all(3)
    assert MissedFiresPolicy.of(policy) is policy


@pytest.mark.parametrize("max_catchup", [0, -1, 2**32])
def test_a_catch_up_out_of_range_is_refused_by_name(max_catchup: int) -> None:
    with pytest.raises(BadArgument) as caught:
        MissedFiresPolicy.fire_all(max_catchup)
    assert str(max_catchup) in str(caught.value)


@pytest.mark.parametrize("max_catchup", [True, 1.0, "3", None])
def test_a_catch_up_that_is_no_whole_number_is_refused(max_catchup: Any) -> None:
    with pytest.raises(TypeError, match="expected int, got "):
        MissedFiresPolicy.fire_all(max_catchup)


@pytest.mark.parametrize("form", [{}, {"kind": "fire_all", "max_catchup": 3}])
def test_a_policy_of_unknown_kind_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match="'skip', 'fire-once' or 'fire-all'"):
        MissedFiresPolicy.of(form)


def test_a_policy_of_unknown_kind_has_no_other_forms() -> None:
    unknown = MissedFiresPolicy("twice")
    with pytest.raises(ValueError, match="twice"):
        unknown.to_dict()
    with pytest.raises(ValueError, match="twice"):
        unknown.to_wire()


def test_fire_all_without_its_number_is_refused() -> None:
    with pytest.raises(BadArgument, match="'max_catchup'"):
        MissedFiresPolicy.of({"kind": "fire-all"})


def test_what_is_neither_policy_nor_dict_is_refused() -> None:
    value: Any = "skip"
    with pytest.raises(TypeError, match="MissedFiresPolicy"):
        MissedFiresPolicy.of(value)


@pytest.mark.parametrize("value", [CRON, MissedFiresPolicy.skip()])
def test_patterns_and_policies_cannot_be_changed(value: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.kind = "other"


def test_a_listing_tells_all_but_the_data() -> None:
    spec = RepeatSpec("k", "ping", CronPattern("0 9 * * *"), b"\xc0", 5, 1, 2, FireAll(3))
    assert RepeatableMeta.of(spec, 1_800_000_000_000) == RepeatableMeta(
        key="k",
        job_name="ping",
        pattern=RepeatPattern.cron("0 9 * * *"),
        next_fire_ms=1_800_000_000_000,
        limit=5,
        start_after_ms=1,
        end_before_ms=2,
        missed_fires=MissedFiresPolicy.fire_all(3),
    )


def test_a_listing_of_a_schedule_that_skips_names_no_policy() -> None:
    assert RepeatableMeta.of(RepeatSpec("k", "ping", EveryPattern(5), b""), 7).missed_fires is None


def test_a_listing_shows_a_schedule_that_this_engine_would_refuse() -> None:
    spec = RepeatSpec("k", "ping", CronPattern("no cron", "Mars/Phobos"), b"")
    assert RepeatableMeta.of(spec, 7).pattern == RepeatPattern.cron("no cron", "Mars/Phobos")
