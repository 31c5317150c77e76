"""The options of a group, behind its commands as well: `relevo inspect emails --redis-url …` is `relevo --redis-url … inspect
emails`, and so with `relevo work --key …`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from relevo.cli.shell.redis_server import Server, server_of

WITHOUT_REDIS = frozenset({"up", "demo", "work", "audit", "db"})
"""Commands that ask no Redis of the caller's: they take the option too, but their help does not speak of it."""


def _tell_url(ctx: typer.Context, value: str | None) -> None:
    server = ctx.find_object(Server)
    if value is not None and server is not None:
        server.given = value


def _tell_patience(ctx: typer.Context, value: float | None) -> None:
    if value is not None:
        server_of(ctx).patience = value


# Their names begin with `group_`: an argument of a command may be called `url` too, and its value would be taken for theirs.


def _redis(
    group_redis_url: Annotated[
        str | None, typer.Option("--redis-url", callback=_tell_url, help="Where Redis is; see `relevo --help`.")
    ] = None,
    group_patience: Annotated[
        float | None,
        typer.Option("--patience", callback=_tell_patience, help="Seconds to wait for the server to answer.", min=0.1),
    ] = None,
) -> None:
    """Only its parameters are used."""


def _tell_target(name: str) -> Callable[[typer.Context, Any], None]:
    def tell(ctx: typer.Context, value: Any) -> None:
        from relevo.cli.work.target import target_of

        if value is not None:
            setattr(target_of(ctx), name, value)

    return tell


def _work(
    group_url: Annotated[
        str | None, typer.Option("--url", callback=_tell_target("given_url"), help="Where they are served.")
    ] = None,
    group_key: Annotated[
        str | None, typer.Option("--key", callback=_tell_target("given_key"), help="An API key.")
    ] = None,
    group_data: Annotated[
        Path | None, typer.Option("--data", callback=_tell_target("data"), help="The data folder of `relevo up`.")
    ] = None,
) -> None:
    """Only its parameters are used."""


def accept_behind(name: str, command: Any) -> Any:
    """Gives a command of `relevo`, and all below it, the options of the groups above. Its own option of that name stays."""
    _give(command, _redis, hidden=name in WITHOUT_REDIS)
    if name == "work":
        for each in command.commands.values():
            _give(each, _work)
    return command


def _give(command: Any, options: Callable[..., None], *, hidden: bool = False) -> None:
    taken = {written for parameter in command.params for written in parameter.opts}
    for option in _parameters(options):
        if not taken & set(option.opts):
            option.hidden = hidden
            command.params.append(option)
    for below in getattr(command, "commands", {}).values():
        _give(below, options, hidden=hidden)


def _parameters(options: Callable[..., None]) -> list[Any]:
    """As typer makes them, for a command that does not get their values: their callbacks do. `of_group` marks them for those
    who list the options of a command."""
    made = typer.Typer(add_completion=False)
    made.command()(options)
    parameters: list[Any] = get_command(made).params
    for parameter in parameters:
        parameter.expose_value = False
        parameter.of_group = True
    return parameters
