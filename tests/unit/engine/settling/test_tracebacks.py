"""What is made of an exception: `Type: message`, and the traceback without frames that are not the user's."""

import asyncio
from typing import Any

import pytest

from relevo.engine.settling.tracebacks import LONGEST_ERROR, LONGEST_TRACEBACK, error_text, traceback_text


class OddError(Exception):
    """An error of somebody's own."""


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001
        return caught


def text(error: BaseException) -> str:
    return traceback_text(error, error_text(error))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("email"), "KeyError: 'email'"),
        (OddError("no"), f"{__name__}.OddError: no"),
        (TimeoutError(), "TimeoutError"),
        (MuteError(), f"{__name__}.MuteError: <its message cannot be shown>"),
        (ValueError("redis://me:s3cret@db is away"), "ValueError: redis://me:***@db is away"),
        (ValueError("\udcff"), "ValueError: ?"),
    ],
)
def test_an_error_is_told_with_its_type(error: Exception, said: str) -> None:
    assert error_text(error) == said


def test_a_long_message_is_cut() -> None:
    assert len(error_text(ValueError("x" * 100_000))) == LONGEST_ERROR


def test_a_cause_comes_before_its_effect() -> None:
    def send() -> None:
        try:
            raise KeyError("email")
        except KeyError as cause:
            raise OddError("no address") from cause

    with pytest.raises(OddError) as caught:
        send()
    said = text(caught.value)
    first, second = said.split("\nThe above exception was the direct cause of the following exception:\n\n")
    assert first.startswith("Traceback (most recent call last):\n")
    assert first.endswith("KeyError: 'email'\n")
    assert second.endswith("OddError: no address")


def test_what_happened_while_handling_is_told_as_such_and_from_none_hides_it() -> None:
    def handle(quiet: bool) -> None:
        try:
            raise KeyError("email")
        except KeyError:
            if quiet:
                raise OddError("no") from None
            raise OddError("no")  # noqa: B904

    said: list[str] = []
    for quiet in (False, True):
        with pytest.raises(OddError) as caught:
            handle(quiet)
        said.append(text(caught.value))
    assert "During handling of the above exception" in said[0]
    assert "KeyError" not in said[1]


def test_notes_stand_behind_the_error() -> None:
    error = raised(OddError("no"))
    error.add_note("user 7")
    assert text(error).endswith("OddError: no\nuser 7")


def test_an_error_that_is_its_own_cause_ends() -> None:
    error = raised(OddError("no"))
    other = raised(KeyError("x"))
    error.__cause__, other.__cause__ = other, error
    assert text(error).endswith("OddError: no")


def test_a_long_traceback_keeps_the_innermost_frames() -> None:
    def innermost() -> None:
        raise OddError("here")

    def dig(depth: int) -> None:
        if depth:
            dig(depth - 1)
        else:
            innermost()

    with pytest.raises(OddError) as caught:
        dig(300)
    said = text(caught.value)
    assert len(said.encode()) <= LONGEST_TRACEBACK
    assert "in innermost\n" in said
    assert said.endswith("OddError: here")
    assert "frames left out" in said


def test_a_message_of_many_bytes_leaves_the_bound_alone() -> None:
    error = raised(OddError("ö" * 10_000))
    assert len(text(error).encode()) <= LONGEST_TRACEBACK


def test_frames_of_asyncio_are_left_out() -> None:
    async def late() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(late())
    said = text(caught.value)
    assert "asyncio/timeouts" not in said
    assert "in late" in said


def test_functions_alike_in_two_files_keep_their_own_places() -> None:
    places: list[str] = []
    for file in ("/app/one.py", "/app/two.py"):
        scope: dict[str, Any] = {}
        exec(compile("def same():\n    raise KeyError(1)\n", file, "exec"), scope)  # noqa: S102
        with pytest.raises(KeyError) as caught:
            scope["same"]()
        places.append(text(caught.value))
    assert '"/app/one.py"' in places[0]
    assert '"/app/two.py"' in places[1]


def test_a_group_tells_of_the_errors_in_it() -> None:
    async def broken(name: str) -> None:
        raise KeyError(name)

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(broken("first"))
            group.create_task(broken("second"))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(both())
    said = text(caught.value)
    assert "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n" in said
    assert said.count("in broken") == 2
    assert "  | KeyError: 'first'" in said
    assert "  | KeyError: 'second'" in said


def test_a_group_of_many_long_errors_is_bounded() -> None:
    errors = [raised(OddError("ö" * 5000)) for _ in range(50)]
    said = text(raised(ExceptionGroup("many", errors)))
    assert len(said.encode()) <= LONGEST_TRACEBACK
    assert "of 50" in said
