"""Every error as it prints: one sentence after the other, in plain English, with the value and the remedy."""

import ast
import inspect
import pickle
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import relevo
from relevo import errors
from relevo.api.problems import Internal
from relevo.errors import (
    BadArgument,
    JobDead,
    QueueFull,
    RelevoError,
    ServerRefused,
    TaskTimedOut,
    Unreachable,
    WrongType,
)

SOURCE = Path(relevo.__file__).parent

KINDS = sorted(
    {each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, RelevoError)} | {Internal},
    key=lambda kind: kind.__name__,
)
NAMES = {kind.__name__: kind for kind in KINDS}
ROOTS = {"RelevoError", "WorkError"}  # nobody raises these

# Facts that nobody can do anything about where they are told.
NO_REMEDY = {"JobCancelled", "ReviewOver", "ServerRefused", "SystemQueue", "WrongState", "EventsOvertaken"}
# Their reason, remedy or list of faults says what to do; the tests of what raises them look at it.
REMEDY_FROM_THE_CALL = {"BadRule", "BadSchema", "InvalidInput", "SchemaInvalid"}


def fields_of(kind: type[RelevoError]) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(kind.message) if name}


def rendered(kind: type[RelevoError], **special: object) -> str:
    """The message with a likely value for each field."""
    numbers = re.findall(r"\{(\w+):[^}]*f\}", kind.message)
    values: dict[str, Any] = {name: 3 if name in numbers else "thing" for name in fields_of(kind)}
    values |= {name: value for name, value in special.items() if name in values}
    if kind is WrongType:
        values = {"argument": "name", "value": special.get("value", 3), "expected": "str"}
    return str(kind(**values))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_message_is_whole_sentences_on_one_line(kind: type[RelevoError]) -> None:
    text = rendered(kind, reason="it said so", remedy="Do something else.")
    assert "\n" not in text
    assert "  " not in text
    assert re.search(r"(?<!\.)\.$", text), "it ends with one full stop"
    assert ".." not in text
    assert text[0] in "`'" or text[0].isupper() or text.startswith(("thing", "name="))


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if "reason" in fields_of(kind)], ids=lambda kind: kind.__name__
)
def test_a_reason_of_another_program_does_not_break_the_sentence(kind: type[RelevoError]) -> None:
    text = rendered(kind, reason="no route\nto host.", remedy="Do something else.")
    assert "no route to host" in text
    assert not re.search(r"host\.([.,;:)]| \()", text), "its full stop is not the end of ours"
    assert "\n" not in text


@pytest.mark.parametrize("value", [3, None, True, "text", 1.5, [], object], ids=repr)
def test_a_wrong_type_is_named_without_an_article(value: object) -> None:
    text = rendered(WrongType, value=value)
    assert re.search(r"expected str, got \w+\.$", text)
    assert not re.search(r"\b(a|an) (int|None|NoneType|bool|float|str|object|list)\b", text)


def test_a_question_of_another_program_keeps_its_mark() -> None:
    refused = ServerRefused(command="the sign-in", reason="ERR no password is set. Are you sure?")
    assert str(refused) == "Redis refused the sign-in: ERR no password is set. Are you sure?"


def test_a_full_stop_inside_brackets_is_none() -> None:
    dead = JobDead(job_id="j", reason="unrecoverable", detail="BadTaskData: it does not fit. Send a dict.")
    assert str(dead).startswith("Job 'j' is dead (unrecoverable; BadTaskData: it does not fit. Send a dict). Look")


def test_none_is_called_none() -> None:
    assert rendered(WrongType, value=None) == "name=None: expected str, got None."


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.__name__ not in ROOTS], ids=lambda kind: kind.__name__)
def test_a_message_is_written_in_its_class_and_says_what_to_do(kind: type[RelevoError]) -> None:
    assert "message" in vars(kind), "a docstring is gone under `python -OO`: write it as `message`"
    if kind.__name__ in NO_REMEDY | REMEDY_FROM_THE_CALL:
        return
    told = kind.message.partition(": ")[2] + kind.message.partition(". ")[2]
    assert told, f"{kind.__name__} says what is wrong and not what to do"


def test_the_exceptions_to_the_rule_exist() -> None:
    assert set(NAMES) >= NO_REMEDY | REMEDY_FROM_THE_CALL | ROOTS


def test_every_raise_gives_the_fields_its_message_names() -> None:
    wrong: list[str] = []
    found = 0
    for place, name, given in raises():
        found += 1
        wanted = set(inspect.signature(NAMES[name]).parameters) if _own_parameters(name) else fields_of(NAMES[name])
        if _own_parameters(name) and given <= wanted:
            continue
        if given != wanted and not _says_more(name, given, wanted):
            wrong.append(f"{place}: {name}({', '.join(sorted(given))}) but its message has {sorted(wanted)}")
    assert found > 300
    assert wrong == []


def test_a_remedy_given_at_a_raise_is_a_sentence() -> None:
    """What follows "… is not valid: reason. " begins with a capital letter (or code) and ends with a full stop."""
    wrong: list[str] = []
    for place, name, call in calls():
        if "{reason}. {remedy}" not in NAMES[name].message:
            continue
        for keyword in call.keywords:
            text = _literal(keyword.value)
            if text is None:
                continue
            if keyword.arg == "remedy" and not (text.endswith(".") and not text[0].islower()):
                wrong.append(f"{place}: remedy {text!r}")
            if keyword.arg == "reason" and (text.endswith(".") or "\n" in text):
                wrong.append(f"{place}: reason {text!r}")
    assert wrong == []


def test_the_fields_are_attributes_and_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(WrongType(argument="name", value=3, expected="str")))  # noqa: S301 - our own
    assert isinstance(error, WrongType)
    assert (str(error), error.argument, error.value) == ("name=3: expected str, got int.", "name", 3)
    refused = pickle.loads(pickle.dumps(ServerRefused(command="XADD", reason="OOM.")))  # noqa: S301 - our own
    assert (str(refused), refused.reason) == ("Redis refused XADD: OOM.", "OOM.")


def test_a_bad_argument_reads_as_two_sentences() -> None:
    error = BadArgument(argument="delay_ms", value=-1, reason="must be 0 or more", remedy="Pass milliseconds.")
    assert str(error) == "delay_ms=-1 is not valid: must be 0 or more. Pass milliseconds."


# --- what the source raises --------------------------------------------------------------------------------------------


def raises() -> Iterator[tuple[str, str, set[str]]]:
    """Every call of an error's class with its fields by name: where, which, with which."""
    for place, name, call in calls():
        if not call.args and all(keyword.arg for keyword in call.keywords):
            yield place, name, {keyword.arg or "" for keyword in call.keywords}


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    for place, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
                yield f"{place}:{node.lineno}", node.func.id, node


@cache
def _trees() -> list[tuple[str, ast.Module]]:
    return [(str(file.relative_to(SOURCE)), ast.parse(file.read_text())) for file in sorted(SOURCE.rglob("*.py"))]


def _own_parameters(name: str) -> bool:
    return "__init__" in vars(NAMES[name])


def _says_more(name: str, given: set[str], wanted: set[str]) -> bool:
    """A field that is only an attribute is fine; one that the message names must be there."""
    return given >= wanted


def _literal(node: ast.expr) -> str | None:
    """The text of a string in the source, with a word in place of each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [each.value if isinstance(each, ast.Constant) else "Thing" for each in node.values]
        return "".join(str(part) for part in parts)
    return None


def test_errors_keep_their_words_without_docstrings() -> None:
    """`python -OO` drops docstrings; the words once lived there, and 115 errors said nothing."""
    program = "from relevo.errors import QueueFull; print(QueueFull(queue='emails', length=5, cap=5))"
    said = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str(QueueFull(queue="emails", length=5, cap=5))
    assert "emails" in said


def test_a_measured_time_is_told_in_few_digits() -> None:
    """Seen as `No Redis answers at … after 2.999999469000045 s`."""
    text = str(Unreachable(address="redis://127.0.0.1:1", waited_s=2.999999469000045, reason="refused"))
    assert "after 3 s: refused" in text


@pytest.mark.parametrize(
    ("value", "shown"), [(0.5, "0.5"), (30.0, "30"), (1234567.25, "1234567.25"), (0.0000001, "1e-07"), (0.0, "0.0")]
)
def test_a_number_keeps_what_it_says(value: float, shown: str) -> None:
    assert str(TaskTimedOut(task="send", timeout_s=value)).startswith(f"Task 'send' ran longer than its {shown} s")
