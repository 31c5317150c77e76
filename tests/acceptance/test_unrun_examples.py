"""What a page cannot run (a worker stays, a database is yours) is at least a call that the command line understands."""

import shlex
from typing import Any

import pytest
import typer

from relevo.cli import app
from relevo.cli.shell.redis_server import Server
from tests.support.page import blocks_of, pages

CALLS = [
    pytest.param(line, id=f"{block.place} {line}")
    for page in pages()
    for block in blocks_of(page)
    if block.marked_not_run
    for line in block.text.splitlines()
    if line.startswith("relevo ")
]


@pytest.mark.parametrize("line", CALLS)
def test_a_call_that_is_not_run_has_a_command_and_options_that_exist(line: str) -> None:
    understood(shlex.split(line, comments=True)[1:])


@pytest.mark.parametrize("line", ["relevo inspekt emails", "relevo worker app:tasks --cuncurrency 5"])
def test_a_call_of_what_does_not_exist_would_be_found(line: str) -> None:
    with pytest.raises(Exception, match=r"No such (command|option)"):
        understood(shlex.split(line)[1:])


def understood(arguments: list[str]) -> None:
    """Goes from group to command and reads all options, as a call does, up to the point where it would begin."""
    command: Any = typer.main.get_command(app)
    context: Any = command.make_context("relevo", arguments)
    context.obj = Server("redis://127.0.0.1:6390", 1.0)  # as the app's callback leaves it for options behind a command
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
