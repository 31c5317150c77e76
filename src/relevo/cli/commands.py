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

from relevo.cli.group_options import accept_behind
from relevo.cli.shell.failures import INTERRUPTED, complain_of, missing_extra
from relevo.errors import RelevoError

PLACES = {
    "demo": "demo.demo",
    "up": "servers.up.up",
    "worker": "workers.worker.worker",
    "serve": "servers.serve.serve",
    "agents": "servers.agents.agents",
    "add": "queues.add.add",
    "inspect": "queues.inspect.inspect",
    "watch": "queues.watch.watch",
    "events": "queues.events.events",
    "pause": "queues.queue_ops.pause",
    "resume": "queues.queue_ops.resume",
    "drain": "queues.queue_ops.drain",
    "clean": "queues.queue_ops.clean",
    "obliterate": "queues.queue_ops.obliterate",
    "doctor": "queues.doctor.doctor",
    "bench": "bench.bench",
    "db": "database.db.app",
    "audit": "database.audit.app",
    "work": "work.app",
    "job": "queues.job.app",
    "dlq": "queues.dlq.app",
    "schedule": "queues.schedule.app",
    "lanes": "queues.lanes.app",
    "flow": "queues.flow.app",
    "pipeline": "pipeline.commands.app",
}
"""By name, in the order of the help: the function of a command, or the `app` of a group, below `relevo.cli`."""

_OTHER_NAMES = {"repeatable": "schedule"}
"""Further names of groups: understood, and not in the help."""


class _OnDemand(Mapping[str, Any]):
    """The commands by name, each made when somebody asks for it, once a process."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = accept_behind(name, _made(name, PLACES[_OTHER_NAMES.get(name, name)]))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        yield from PLACES
        yield from _OTHER_NAMES

    def __len__(self) -> int:
        return len(PLACES) + len(_OTHER_NAMES)


def _made(name: str, place: str) -> Any:
    module, _, member = place.rpartition(".")
    found = getattr(import_module(f"relevo.cli.{module}"), member)
    if isinstance(found, typer.Typer):
        command = get_group(found)
        command.name = name
        command.hidden = name in _OTHER_NAMES
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
            raise typer.Exit(complain_of(error)) from None
        except ModuleNotFoundError as error:
            told = missing_extra(error, f"`relevo {ctx.invoked_subcommand or ''}`")
            if told is None:
                raise
            raise typer.Exit(complain_of(told)) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
