"""The options of `relevo.Worker` as flags of `relevo worker`: all that is said of them comes from where they are declared."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_type_hints

import typer

from relevo.engine.consuming.worker_options import WorkerOptions
from relevo.options import Option, options_of
from relevo.wire.retry import RetryDefaults

OBSERVING = "Logs and metrics"
"""A heading of the help beside those of the options."""

_MORE_NAMES = {"concurrency": "-c", "shutdown_deadline_s": "--shutdown-s", "claim_min_idle_ms": "--idle-ms"}
_NAMED = re.compile(r"`(\w+)`")
_RETRY = {f"retry_{each.name}": each for each in options_of(RetryDefaults)}
"""`retry` is an object: its fields are flags of their own."""


def _options() -> Iterator[tuple[str, Option]]:
    for each in options_of(WorkerOptions):
        yield from _RETRY.items() if each.name == "retry" else [(each.name, each)]


FLAGS = dict(_options())


def with_worker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Puts the flags in the place of a command's argument `options`, which gets their values by the names in FLAGS."""
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        options = {name: given.pop(name) for name in FLAGS}
        command(**given, options=options)

    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        parameters += _flags() if parameter.name == "options" else [parameter]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    called.__signature__ = own.replace(parameters=keywords)  # pyright: ignore[reportAttributeAccessIssue]
    return called


def worker_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """What `Worker` is called with, from the values of the flags."""
    given = {name: value for name, value in options.items() if name not in _RETRY}
    retry = {_RETRY[name].name: value for name, value in options.items() if name in _RETRY}
    return given | ({"retry": RetryDefaults(**retry)} if retry else {})


def _flags() -> Iterator[inspect.Parameter]:
    kinds = get_type_hints(WorkerOptions) | {
        f"retry_{name}": kind for name, kind in get_type_hints(RetryDefaults).items()
    }
    for name, option in FLAGS.items():
        kind, about = kinds[name], option.about
        written = name.replace("_", "-")
        least = (0 if about.zero else 1) if kind in (int, int | None) else 0
        flag = typer.Option(
            f"--{written}/--no-{written}" if kind in (bool, bool | None) else f"--{written}",
            *filter(None, [_MORE_NAMES.get(name)]),
            help=_NAMED.sub(_as_flag, about.text),
            rich_help_panel=about.topic,
            min=least if kind in (int, int | None, float, float | None) else None,
        )
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=Annotated[kind, flag]
        )


def _as_flag(found: re.Match[str]) -> str:
    """What the text of an option calls by its name in Python."""
    return f"--{found[1].replace('_', '-')}" if found[1] in FLAGS else found[0]
