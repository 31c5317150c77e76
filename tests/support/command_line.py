"""The command line as a user calls it: in a process of its own, or in this one."""

import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from typer.testing import CliRunner

from relevo.cli import app
from tests.servers.child import Child
from tests.servers.server import Server

COMMAND = (sys.executable, "-m", "relevo")


@dataclass(frozen=True)
class Said:
    """What one call of the command line printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its --json, read."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Its --json, one object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def refusal(self) -> str:
        """What it says of a call that must go wrong: one line."""
        assert self.code == 1
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        return self.err


def relevo(*arguments: str, stdin: str = "", url: str | None = None) -> Said:
    """Runs `relevo` in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "RELEVO_REDIS_URL"}
    if url is not None:
        environment["RELEVO_REDIS_URL"] = url
    return Said(*Child.run(*COMMAND, *arguments, stdin=stdin, env=environment))


def shell_environment(folder: Path, redis_url: str | None = None) -> dict[str, str]:
    """The environment of a reader's terminal: `relevo` and `python` are on the PATH, and no address is set but this one."""
    programs = folder / "bin"
    programs.mkdir()
    for name, arguments in (("relevo", "-m relevo"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        program.chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if name != "RELEVO_REDIS_URL"}
    if redis_url is not None:
        clean["RELEVO_REDIS_URL"] = redis_url
    return {**clean, "PATH": f"{programs}:{os.environ['PATH']}"}


class Cli(Protocol):
    """`cli("inspect", "emails")`: the commands on the server of this test, in this process (a start costs half a second)."""

    def __call__(self, *arguments: str, stdin: str = "") -> Said: ...


def called(server: Server, *arguments: str, stdin: str = "") -> Said:
    """One call of the command line on a server, in this process."""
    return call("--redis-url", server.url, *arguments, stdin=stdin)


def call(*arguments: str, stdin: str = "") -> Said:
    """One call of the command line, in this process. What it says where logs go is over with it, as with a process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        done = CliRunner().invoke(app, arguments, input=stdin)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Said(done.exit_code, done.stdout, done.stderr)
