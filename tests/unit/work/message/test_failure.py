"""A failure is bounded by its making, so that every worker's failure can be recorded."""

import msgspec
import pytest

from relevo.contract.failures import FailureIn
from relevo.work.message.failure import Failure, failure_of


def test_an_error_needs_a_type_or_a_message() -> None:
    with pytest.raises(ValueError, match="needs a `type` or a `message`"):
        Failure(stack="at shop.js:7")
    with pytest.raises(msgspec.ValidationError, match="needs a `type` or a `message`"):
        msgspec.json.decode(b'{"type":"","message":""}', type=Failure)


def test_a_misspelt_part_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `msg`"):
        msgspec.json.decode(b'{"type":"KeyError","msg":"email"}', type=FailureIn)


def test_a_stack_that_begins_innermost_is_cut_at_its_end() -> None:
    stack = "Error: no email\n" + "".join(f"    at handler{line} (shop.js:7)\n" for line in range(1000))
    kept = Failure(type="Error", stack=stack).stack
    assert kept is not None
    assert len(kept) == 8_000
    assert kept == stack[:7_999] + "…"


@pytest.mark.parametrize("stack", ["Traceback (most recent call last):\n" + "x\n" * 9000, "y" * 9000])
def test_what_was_cut_once_is_read_back_as_it_is(stack: str) -> None:
    failure = Failure(type="T" * 999, message="m" * 9999, stack=stack)
    assert failure_of(failure.encoded()) == failure
    assert failure_of(failure.encoded(), stack=False) == msgspec.structs.replace(failure, stack=None)
