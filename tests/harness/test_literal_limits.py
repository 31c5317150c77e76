"""No test has a limit in plain seconds: each goes through `limit`, or is waited for by something that does it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pace import limit

ROOT = Path(__file__).parents[2]
SHORTEST = 2
"""Seconds. What is shorter is no limit but what the test is about: a wait that is to end without an answer."""

FOLLOWS_BY_ITSELF = {"until", "wait_until", "line", "end", "ended", "to_thread", "timeout"}
"""Functions that put what they are given through `limit`, most of them of `tests/servers/child.py`; and the mark, which
`tests/harness/limits.py` reads."""

BY_PLACE = {"asyncio.timeout", "asyncio.wait_for"}
METHODS_BY_PLACE = {"wait", "result", "settimeout"}
"""Functions and methods whose last argument is a limit: `event.wait(20)`."""

NAMES = {"timeout", "socket_timeout", "socket_connect_timeout"}
"""Of arguments that are limits."""

OUTSIDE = ("tests/typing/snippets/", "tests/acceptance/lean_job.py")
"""What is not run, or runs where there are no tests to import from."""


def literal_limits(source: str) -> Iterator[tuple[int, float]]:
    """Lines with a limit that is a number."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        given = [word.value for word in call.keywords if word.arg in NAMES]
        if name in BY_PLACE or name.rpartition(".")[2] in METHODS_BY_PLACE:
            given += call.args[-1:]
        elif name == "Child.run" or name.rpartition(".")[2] in FOLLOWS_BY_ITSELF or _waits_for_words(call):
            continue
        for value in given:
            if isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value >= SHORTEST:
                yield value.lineno, float(value.value)


def _waits_for_words(call: ast.Call) -> bool:
    """Whether it is `Child.wait_for(pattern)`, not a signal's."""
    text = isinstance(call.func, ast.Attribute) and call.func.attr == "wait_for" and bool(call.args)
    return text and (isinstance(call.args[0], ast.JoinedStr) or isinstance(getattr(call.args[0], "value", None), str))


def test_no_limit_of_a_test_is_in_plain_seconds() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {seconds:g} s; write limit({seconds:g})"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(OUTSIDE)
        for line, seconds in literal_limits(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("async with asyncio.timeout(20): ...", [20]),
        ("signal.wait_for(timeout=30)", [30]),
        ("subprocess.run([], timeout=50)", [50]),
        ("assert event.wait(40)", [40]),
        ("future.result(5)", [5]),
        ("asyncio.wait_for(worker.close(), 5)", [5]),
        ("Connection(socket_timeout=10)", [10]),
        ("event.wait(limit(40))", []),
        ("event.wait(0.3)", []),
        ("async with asyncio.timeout(limit(20)): ...", []),
        ("await until(done, timeout=40)", []),
        ("@pytest.mark.timeout(300)\ndef test(): ...", []),
        ("job.wait_for_result(timeout=0.2)", []),
    ],
)
def test_a_limit_in_plain_seconds_is_found(source: str, found: list[float]) -> None:
    wrapped = source if source.startswith("@") else f"async def test():\n    {source}"
    assert [seconds for _, seconds in literal_limits(wrapped)] == found


def test_a_limit_is_at_least_what_is_written() -> None:
    assert limit(5) >= 5
