"""The options of `relevo` and of `relevo work` stand before a command or behind it, for every command."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from relevo.cli import app
from relevo.cli.shell.redis_server import server_of
from tests.servers.server import Server
from tests.support.command_line import call


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = [pytest.param(path, command, id=" ".join(path)) for path, command in commands(typer.main.get_command(app))]


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_command_takes_the_address_behind_it(path: tuple[str, ...], command: Any) -> None:
    written = {option for parameter in command.params for option in parameter.opts}
    assert "--redis-url" in written
    if path[0] == "work":
        assert {"--url", "--key"} <= written


@pytest.mark.parametrize(("path", "command"), ALL)
def test_no_option_takes_the_value_of_another(path: tuple[str, ...], command: Any) -> None:
    names = [parameter.name for parameter in command.params]
    assert len(names) == len(set(names)), f"{' '.join(path)} has two parameters of one name"


def test_there_are_commands_to_look_at() -> None:
    assert len(ALL) > 60


def test_behind_means_the_same_as_before(valkey: Server, queue_name: str) -> None:
    behind = call("add", queue_name, "welcome", "--redis-url", valkey.url)
    before = call("--redis-url", valkey.url, "add", queue_name, "welcome")
    between = call("job", "--redis-url", valkey.url, "list", queue_name, "--json")
    assert (behind.code, before.code) == (0, 0)
    assert len(between.data["jobs"]) == 2


def test_what_stands_behind_wins() -> None:
    nowhere = call(
        "--redis-url", "redis://127.0.0.1:1", "inspect", "q", "--redis-url", "redis://127.0.0.1:2", "--patience", "0.1"
    )
    assert "redis://127.0.0.1:2 after 0.1 s" in nowhere.err


def test_an_option_of_the_command_itself_keeps_its_meaning() -> None:
    """`serve --redis-url` is its own: where it keeps the order. Given before the command, it is the same."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("relevo", ["--redis-url", "redis://127.0.0.1:1", "serve"])
    with context:
        root.callback(**context.params)
        assert server_of(context).given == "redis://127.0.0.1:1"


def test_the_options_of_work_queues_reach_the_target() -> None:
    said = call("work", "scopes", "--url", "http://127.0.0.1:1", "--key", "rlv_x")
    assert "No relevo server answers at http://127.0.0.1:1" in said.err
