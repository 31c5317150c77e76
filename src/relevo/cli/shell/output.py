"""What people see (tables on stdout, complaints on stderr) and what programs read (JSON on stdout)."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, cast

import typer
from rich.box import ROUNDED
from rich.console import Console, RenderableType
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]

_PIPE_WIDTH = 160  # a pipe has no width of its own, and a table cut at 80 columns helps nobody


def console(*, stderr: bool = False) -> Console:
    """A console on the stream as it is now (tests and pagers replace it)."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False, markup=False)


def complain(message: str) -> None:
    """One red line on stderr, whatever line breaks the message had."""
    text = " ".join(message.split())
    console(stderr=True).print(f"error: {text}", style="bold red", markup=False, soft_wrap=True)


def hint(message: str) -> None:
    """One dim line on stderr: good to know, and in nobody's way."""
    console(stderr=True).print(message, style="dim", markup=False, soft_wrap=True)


def complain_at_length(text: str) -> None:
    """A text of several lines on stderr, such as a traceback."""
    console(stderr=True).print(text, markup=False, soft_wrap=True)


def say(message: RenderableType, style: str = "") -> None:
    console().print(message, style=style, markup=False, soft_wrap=not isinstance(message, Table))


def show(value: object, as_json: bool, *shown: RenderableType | None, nothing: str = "") -> None:
    """How a command ends: the whole value for programs; for people what is `shown`, or `nothing` when there was none."""
    if as_json:
        print_json(value)
        return
    for each in (nothing,) if nothing and not value else shown:
        if each is not None:
            say(each)


def print_json(value: object, *, lines: bool = False) -> None:
    """`lines` prints one object a line, for commands that do not end."""
    text = json.dumps(readable(value), ensure_ascii=False, indent=None if lines else 2)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def readable(value: object) -> Any:
    """`value` as JSON can hold it: records become objects, bytes that are no text {"base64": ...}, odd keys text."""
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else str(key): readable(item)
            for key, item in cast("Mapping[object, object]", value).items()
        }
    if isinstance(value, list | tuple):
        return [readable(item) for item in cast("list[object]", value)]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if is_dataclass(value):
        return {field.name: readable(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "__struct_fields__"):
        import msgspec  # here: most commands print none

        return msgspec.to_builtins(value)
    return str(value)


def one_line(value: object, width: int | None = None) -> str:
    """JSON in one line, at most `width` characters of it.

    >>> one_line({"to": "ada"}), one_line([1, 2, 3], width=5)
    ('{"to": "ada"}', '[1, …')
    """
    return cut(json.dumps(readable(value), ensure_ascii=False), width)


def cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def table(*columns: str, title: str = "", numbers: tuple[str, ...] = ()) -> Table:
    made = Table(title=title or None, title_justify="left", box=ROUNDED, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def count(number: int) -> str:
    """1234567 -> "1 234 567"."""
    return f"{number:,}".replace(",", " ")


def span(ms: int | None) -> str:
    """Milliseconds as people say them.

    >>> span(None), span(850), span(61_000), span(7_500_000)
    ('-', '850 ms', '1 min 1 s', '2 h 5 min')
    """
    if ms is None:
        return "-"
    if ms < 10_000:
        return f"{ms} ms"
    seconds = ms // 1000
    for size, unit, small, small_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // small
            return f"{seconds // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{seconds} s"


def moment(ms: int | None) -> str:
    """An instant as ISO 8601 in UTC, to the millisecond.

    >>> moment(1_767_225_600_000), moment(None)
    ('2026-01-01T00:00:00.000Z', '-')
    """
    if ms is None:
        return "-"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
