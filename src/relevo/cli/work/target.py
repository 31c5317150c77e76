"""Where the commands of `relevo work` go: the address and the key of one call, and how they say what they got."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer
from rich.table import Table

from relevo.cli.shell.output import console, hint, moment, print_json, say
from relevo.cli.shell.run_file import find_running
from relevo.errors import BadArgument, DependencyMissing

if TYPE_CHECKING:
    from relevo.client import Client

T = TypeVar("T")

KEY_FILE = "work.key"
"""In the data folder of `relevo up`: the first key, readable by its owner only."""

Scope = Annotated[str, typer.Argument(help="Slug of the scope.", show_default=False)]
Queue = Annotated[str, typer.Argument(help="Slug of the queue.", show_default=False)]
MessageId = Annotated[str, typer.Argument(help="Id of the message.", show_default=False)]
Token = Annotated[str, typer.Argument(help="The claim's token.", show_default=False)]
ExistOk = Annotated[bool, typer.Option("--exist-ok", help="One that is there already is fine, and stays as it is.")]
Limit = Annotated[int, typer.Option(help="How many at most.", min=1, max=500)]
Labels = Annotated[list[str] | None, typer.Option("--label", help="name=value; may be repeated.")]


class Target:
    """The server and the key of one call of the command line: as given, else those of a `relevo up` of this folder."""

    def __init__(self, url: str | None, key: str | None, data: Path) -> None:
        self.given_url = url
        self.given_key = key
        self.data = data

    @property
    def url(self) -> str | None:
        if self.given_url is not None:
            return self.given_url
        running = find_running(self.data)
        if running is None or running.work_url is None:
            return None
        hint(f"using the work queues of `relevo up` in ./{self.data} ({running.work_url})")
        return running.work_url

    @property
    def key(self) -> str | None:
        """The key that was given, or the one that `relevo up` has left in its data folder."""
        if self.given_key is not None:
            return self.given_key
        file = self.data / KEY_FILE
        return file.read_text().strip() if file.is_file() else None

    def ask(self, question: Callable[[Client], T]) -> T:
        """Asks with a client that is closed afterwards."""
        try:
            from relevo.client import Client  # here: most commands do without HTTP
        except ImportError as error:
            missing = error.name or "httpx"
            raise DependencyMissing(what="`relevo work`", package=missing, extra="relevo[client]") from error
        with Client(self.url, key=self.key, retry_s=3.0) as client:
            return question(client)


def target_of(ctx: typer.Context) -> Target:
    found = ctx.find_object(Target)
    assert found is not None  # the callback of the group has run
    return found


def json_given(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        remedy = "Write JSON: a number, text in double quotes, [lists] or {objects}."
        raise BadArgument(argument=what, value=text[:100], reason=str(error), remedy=remedy) from error


def json_file(file: Path) -> Any:
    """What a file says, or stdin when it is called `-`."""
    text = sys.stdin.read() if str(file) == "-" else file.read_text()
    return json_given(text, str(file))


def labels_given(labels: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for label in labels or ():
        name, equals, value = label.partition("=")
        if not equals or not name:
            raise BadArgument(argument="--label", value=label, reason="it has no `=`", remedy="Write name=value.")
        found[name] = value
    return found


def plain(value: Any) -> Any:
    """Anything the client gave back, for `print_json`."""
    return msgspec.to_builtins(value)


def when(ms: int | None) -> str:
    return "-" if ms is None else moment(ms)


def short(value: Any, width: int = 60) -> str:
    """JSON in one line of a table."""
    text = json.dumps(plain(value), ensure_ascii=False)
    return text if len(text) <= width else text[: width - 1] + "…"


def said(value: object, as_json: bool, sentence: str) -> None:
    """What came of a change: whole for programs, a sentence for people."""
    if as_json:
        print_json(plain(value))
    else:
        say(sentence)


def listed(found: Sequence[object], as_json: bool, made: Table, *, nothing: str) -> None:
    """What was found: whole for programs, a table for people, or a sentence when it is empty."""
    if as_json:
        print_json(plain(found))
    else:
        console().print(made if found else nothing)
