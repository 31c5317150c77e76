"""How far a command is: one bar, on stderr, for those who look at a terminal."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from relevo.cli.shell.output import console


class Bar:
    """What a command tells of its progress."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(
        self, done: int | None = None, *, more: int | None = None, label: str | None = None, total: int | None = None
    ) -> None:
        """`done` of `total`, or `more` than before; `label` is what is being done."""
        self._progress.update(self._task, completed=done, advance=more, description=label, total=total)

    @contextmanager
    def hidden(self) -> Generator[None]:
        """Out of the way of a question."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()


@contextmanager
def bar(label: str, total: int | None = None, *, quiet: bool = False) -> Generator[Bar]:
    """Shown while the block runs; `quiet` for programs."""
    screen = console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, disable=quiet or not screen.is_terminal, transient=True) as progress:
        yield Bar(progress, progress.add_task(label, total=total))
