"""Which file has which command, and how commands end.

A command's file is read when the command is called: a call should not wait for what the other nineteen need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from relevo.cli.extras import missing_extra
from relevo.cli.group_options import accept_behind
from relevo.cli.screen import complain
from relevo.errors import BadTarget, RelevoError

WRONG_CALL = 2
INTERRUPTED = 130

_PLACES = {
    "demo": "demo.demo",
    "up": "up.up",
    "worker": "worker.worker",
    "serve": "serve.serve",
    "agents": "serve.agents",
    "add": "add.add",
    "inspect": "inspect.inspect",
    "watch": "watch.watch",
    "events": "events.events",
    "pause": "upkeep.pause",
    "resume": "upkeep.resume",
    "drain": "upkeep.drain",
    "clean": "upkeep.clean",
    "obliterate": "upkeep.obliterate",
    "doctor": "doctor.doctor",
    "bench": "bench.bench",
    "db": "db.app",
    "audit": "audit.app",
    "work": "work.app",
    "job": "job.app",
    "dlq": "dlq.app",
    "repeatable": "repeatable.app",
    "lanes": "lanes.app",
    "flow": "flow.app",
    "pipeline": "pipeline.app",
}
"""By name, in the order of the help: the function of a command, or the `app` of a group, below `relevo.cli`."""


class _OnDemand(Mapping[str, Any]):
    """The commands by name, each made when somebody asks for it, once a process."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = accept_behind(name, _made(name, _PLACES[name]))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


def _made(name: str, place: str) -> Any:
    module, _, member = place.partition(".")
    found = getattr(import_module(f"relevo.cli.{module}"), member)
    if isinstance(found, typer.Typer):
        command = get_group(found)
        command.name = name
        return command
    alone = typer.Typer(add_completion=False)
    alone.command(name)(found)
    return get_command(alone)


_COMMANDS = _OnDemand()


class Commands(TyperGroup):
    """The group all commands live in: an error of ours is one red line and exit code 1 (2 when the call itself is wrong),
    Ctrl-C is quiet. Groups inside it need nothing of their own: errors pass through to here."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = cast("Any", _COMMANDS)  # nobody adds to them

    def invoke(self, ctx: typer.Context) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return super().invoke(ctx)
        except RelevoError as error:
            complain(str(error))
            raise typer.Exit(WRONG_CALL if isinstance(error, BadTarget) else 1) from None
        except ModuleNotFoundError as error:
            told = missing_extra(error, f"`relevo {ctx.invoked_subcommand or ''}`")
            if told is None:
                raise
            complain(str(told))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
