"""Where the commands of `relevo work` go: the address and the key of one call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from relevo.cli.shell.output import hint
from relevo.cli.shell.run_file import find_running, place_of
from relevo.errors import DependencyMissing

if TYPE_CHECKING:
    from relevo.client import Client

T = TypeVar("T")

KEY_FILE = "work.key"
"""In the data folder of `relevo up`: the first key, readable by its owner only."""


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
        hint(f"using the work queues of `relevo up` in {place_of(self.data)} ({running.work_url})")
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
