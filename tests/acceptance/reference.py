"""Writes docs/reference.md from what is there: the public names with their docstrings, the commands with their options.

`make reference` (or `python -m tests.acceptance.reference`) writes the page; a test tells when it is out of date.
"""

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

import relevo
import relevo.outbox
import relevo.testing
from relevo.cli import app
from relevo.engine.duties.promoter import PromoterTick
from relevo.engine.job.add_options import AddKeywords, AddOptions
from relevo.engine.schedules.scheduler import SchedulerTick
from relevo.engine.service.already_done import AlreadyDone
from relevo.engine.service.signals import Signal
from relevo.engine.settling.settle_request import SettleResult
from relevo.engine.sync_queue import QueueKeywords, ScheduleKeywords
from relevo.metrics.backlog_watch import BacklogWatch
from relevo.outbox.commit_notifier import CommitNotifier

PUBLIC: tuple[Any, ...] = (relevo, relevo.outbox, relevo.testing)
"""The modules whose names are for users."""

NAMED = (
    AddKeywords,
    AddOptions,
    AlreadyDone,
    BacklogWatch,
    CommitNotifier,
    PromoterTick,
    QueueKeywords,
    ScheduleKeywords,
    SchedulerTick,
    SettleResult,
    Signal,
)
"""What signatures of public names speak of. A signature that speaks of any other class of ours is not for users: left out."""

SAME_NAME = {"Connection"}
"""Classes of ours with the names of other libraries' that signatures speak of."""
SRC = Path(__file__).parents[2] / "src"
PAGE = Path(__file__).parents[2] / "docs" / "reference.md"

_HEAD = """# Reference

Every public name and every command, written by `make reference` from the code itself; do not edit it here.
[Guarantees](guarantees.md) says what you can rely on, [the wire](wire.md) what is in Redis, [options](options.md) has those of
queues and workers with their defaults.
"""


_UNKNOWN = "(…)"


def page() -> str:
    """The whole page as it should be."""
    parts = [_HEAD, "## Python\n"]
    for module in PUBLIC:
        parts.append(f"`from {module.__name__} import …`\n")
        for name in sorted(module.__all__, key=str.lower):
            parts += _described(name, getattr(module, name))
    parts.append("## Types in these signatures\n\nNobody imports them: they are what the calls above take and give.\n")
    for value in NAMED:
        parts += _described(value.__name__, value)
    parts.append("## Command line\n")
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    parts += ["Options of `relevo` itself, before or behind the command:\n", _options(command, Context(command))]
    for path, each in _commands(command, "relevo"):
        parts += [f"### `{path}`\n", f"{_text(each.help or '')}\n", _options(each, Context(each))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


# --- names ---------------------------------------------------------------------------------------------------------------


def _described(name: str, value: object) -> Iterator[str]:
    yield f"### `{name}`\n"
    if inspect.isclass(value):
        if issubclass(value, Exception):
            yield f"An error; {' / '.join(f'`{base.__name__}`' for base in value.__bases__)}.\n"
        else:
            signature = _signature(value)
            if signature != _UNKNOWN and not _inside(signature):
                yield _fenced(_wrapped(f"{name}{signature}"))
    elif inspect.isfunction(value):
        yield _fenced(_wrapped(f"{name}{_signature(value)}"))
    if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
        yield f"{_doc(value)}\n"
    else:
        yield f"`{_plain(str(value))}`\n"
    if inspect.isclass(value) and not issubclass(value, Exception):
        rows = [f"| `{_code(shown)}` | {_cell(doc)} |" for shown, doc in _rows(value) if not _inside(shown)]
        if rows:
            yield "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _rows(owner: type) -> Iterator[tuple[str, str]]:
    yield from _attributes(owner)
    yield from _members(owner)


def _inside(signature: str) -> bool:
    """Whether a signature speaks of a class that this page does not describe."""
    return not _OURS_UNDESCRIBED.isdisjoint(re.findall(r"\b[A-Z]\w+\b", signature))


def _attributes(owner: type) -> Iterator[tuple[str, str]]:
    """What has a type and a docstring of its own: fields of a class, and what its constructor sets."""
    for base in owner.__mro__:
        if base is not owner and base not in (*_public_values(), *NAMED):
            continue
        for node, doc in _documented(base):
            if isinstance(node.target, ast.Name | ast.Attribute):
                name = node.target.id if isinstance(node.target, ast.Name) else node.target.attr
                if not name.startswith("_"):
                    yield f"{name}: {_plain(ast.unparse(node.annotation))}", inspect.cleandoc(doc)


def _documented(owner: type) -> Iterator[tuple[ast.AnnAssign, str]]:
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(written, ast.ClassDef)
    made = (each.body for each in written.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    for body in (written.body, *made):
        for node, following in pairwise(body):
            match node, following:
                case ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(doc))):
                    yield node, doc
                case ast.AnnAssign(value=ast.Call(func=ast.Name("option"), args=[_, ast.Constant(value=str(doc))])), _:
                    yield node, doc
                case _:
                    pass


@cache
def _public_values() -> list[object]:
    return [getattr(module, name) for module in PUBLIC for name in module.__all__]


def classes_of_ours() -> set[str]:
    """The names of all classes of relevo."""
    files = (SRC / "relevo").rglob("*.py")
    return {
        node.name for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
    }


_OURS_UNDESCRIBED = (
    classes_of_ours()
    - {name for module in PUBLIC for name in module.__all__}
    - {each.__name__ for each in NAMED}
    - SAME_NAME
)


def _members(owner: type) -> Iterator[tuple[str, str]]:
    for name, member in inspect.getmembers_static(owner):
        if name.startswith("_") or name in dir(tuple) or not _ours(owner, name):
            continue
        if isinstance(member, property):
            yield name, _doc(member.fget)
        elif isinstance(member, staticmethod | classmethod) or inspect.isfunction(member):
            function = getattr(owner, name)
            awaited = "await " if _is_awaited(function) else ""
            yield f"{awaited}{name}{_signature(function, bound=True)}", _doc(function)


def _is_awaited(function: object) -> bool:
    """Also a plain function whose result is a coroutine, as `Queue.add` is."""
    returned = str(getattr(function, "__annotations__", {}).get("return", ""))
    return inspect.iscoroutinefunction(function) or returned.startswith("Coroutine[")


def _ours(owner: type, name: str) -> bool:
    return any(name in vars(base) and base.__module__.startswith("relevo.") for base in owner.__mro__)


def _signature(value: object, *, bound: bool = False) -> str:
    try:
        signature = inspect.signature(typing.cast("typing.Any", value))
    except ValueError:
        return _UNKNOWN
    hidden = {"self"} if bound else set[str]()
    parameters = [
        each
        for name, each in signature.parameters.items()
        if name == "_" or (name not in hidden and not name.startswith("_"))
    ]
    return _plain(str(signature.replace(parameters=parameters)))


def _wrapped(call: str) -> str:
    """A long call with its arguments below each other (commas inside of brackets stay)."""
    if len(call) <= 100:
        return call
    name, _, rest = call.partition("(")
    inside, _, end = rest.rpartition(")")
    arguments = re.split(r", (?![^\[(]*[\])])", inside)
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){end}"])


def _plain(text: str) -> str:
    """A signature without module names, quotes around annotations and addresses of objects."""
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)
    text = re.sub(r"(?<=: )'([^']*)'|(?<=-> )'([^']*)'", lambda found: found[1] or found[2], text)
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _doc(value: object) -> str:
    return _text(inspect.cleandoc(getattr(value, "__doc__", None) or ""))


def _text(doc: str) -> str:
    """A docstring as Markdown: examples and indented code as blocks, which the doctests run where they stand."""
    parts: list[str] = []
    for is_code, paragraphs in groupby(re.split(r"\n\n+", doc), lambda part: part.startswith(("    ", ">>>"))):
        text = "\n\n".join(paragraphs)
        parts.append(_fenced(textwrap.dedent(text)) if is_code else f"{text}\n")
    return "\n".join(parts).strip()


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```\n"


def _code(text: str) -> str:
    return text.replace("|", "\\|")


def _cell(text: str) -> str:
    first = re.split(r"\n\n|```", text)[0]
    return " ".join(first.replace("|", "\\|").split())


# --- commands ------------------------------------------------------------------------------------------------------------


def of_group(parameter: object) -> bool:
    """An option that a command has of the group above it, where it stands."""
    return bool(getattr(parameter, "of_group", False))


def _commands(group: TyperGroup, path: str) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup) and not command.hidden:
            if not all(of_group(parameter) for parameter in command.params):
                yield f"{path} {name}", command
            yield from _commands(command, f"{path} {name}")
        elif isinstance(command, TyperCommand):
            yield f"{path} {name}", command


def _options(command: TyperCommand | TyperGroup, context: Context) -> str:
    rows = ["| | |", "|---|---|"]
    for parameter in command.params:
        if of_group(parameter):
            continue
        if isinstance(parameter, TyperArgument):
            shown = (parameter.metavar or parameter.name or "").strip("[]").upper()
            shown = shown if parameter.required else f"[{shown}]"
        else:
            assert isinstance(parameter, TyperOption)
            shown = ", ".join((*parameter.opts, *parameter.secondary_opts))
        about = _cell(parameter.help or "")
        default = parameter.get_default(context, call=False)
        if default not in (None, False, "", ()) and isinstance(default, str | int | float):
            about += f" [{default}]"
        rows.append(f"| `{shown}` | {about} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
