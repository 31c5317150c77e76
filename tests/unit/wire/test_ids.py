"""ULIDs: ordered as they were made, also when the clock is not."""

import re
import time

import pytest

from relevo.errors import NotFound
from relevo.wire.ids import IdMint, require_id

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def time_of(ulid: str) -> int:
    value = 0
    for character in ulid[:10]:
        value = value * 32 + CROCKFORD.index(character)
    return value


def test_an_id_is_26_characters_of_the_ulid_alphabet() -> None:
    assert re.fullmatch(f"[{CROCKFORD}]{{26}}", IdMint()())


def test_an_id_begins_with_the_time_it_was_made() -> None:
    assert time_of(IdMint()(1_700_000_000_123)) == 1_700_000_000_123


def test_without_a_time_the_present_one_is_taken() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= time_of(IdMint()()) <= time.time_ns() // 1_000_000


def test_ids_of_one_millisecond_sort_in_the_order_they_were_made() -> None:
    mint = IdMint()
    ids = [mint(1000) for _ in range(5000)]
    assert ids == sorted(set(ids))


def test_ids_sort_in_order_while_the_clock_goes_on() -> None:
    mint = IdMint()
    ids = [mint(1000 + at // 3) for at in range(3000)]
    assert ids == sorted(set(ids))


def test_a_clock_that_steps_back_breaks_no_order() -> None:
    mint = IdMint()
    ids = [mint(at) for at in (5000, 4000, 5000, 1, 5001, 4999)]
    assert ids == sorted(set(ids))
    assert [time_of(each) for each in ids] == [5000, 5000, 5000, 5000, 5001, 5001]


def test_more_ids_than_a_millisecond_holds_run_on_in_the_next() -> None:
    mint = IdMint()
    last = mint(1000)
    for _ in range(1_100_000):
        following = mint(1000)
        if following <= last:
            raise AssertionError(f"{following} came after {last}")
        last = following
    assert time_of(last) in (1001, 1002, 1003)


def test_two_processes_make_different_ids_in_the_same_millisecond() -> None:
    assert len({IdMint()(1000) for _ in range(2000)}) == 2000


def test_what_is_no_id_names_nothing() -> None:
    minted = IdMint()()
    assert require_id("message", minted) == minted
    for text in ("", "order-17", minted[:-1], minted + "0", "8" + minted[1:], "x" * 1000):
        with pytest.raises(NotFound) as refused:
            require_id("message", text)
        assert len(str(refused.value)) < 300
