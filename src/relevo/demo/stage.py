"""The screen: acts, queues and what just happened, live in a terminal; plain lines where there is none."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.box import ROUNDED
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from relevo.demo.tally import Tally

_NEWS = 5
_MARKS = {"ahead": ("·", "dim"), "now": ("▶", "bold cyan"), "done": ("✓", "green"), "failed": ("✗", "bold red")}


@dataclass
class Scene:
    """One act as the screen shows it."""

    title: str
    what: str
    state: str = "ahead"
    outcome: str = ""


@dataclass
class QueueRow:
    """One queue as the screen shows it."""

    waiting: int = 0
    running: int = 0
    delayed: int = 0
    dead: int = 0
    done: int = 0
    rate: str = ""


class Stage(logging.Handler):
    """Shows the story. As a log handler it also shows what the engine has to say, instead of letting it cut the picture."""

    def __init__(self, console: Console, scenes: list[Scene], queues: list[str]) -> None:
        super().__init__(level=logging.WARNING)
        self.console = console
        self.scenes = scenes
        self.rows = {name: QueueRow() for name in queues}
        self.subtitle = ""
        self._news: deque[Text] = deque(maxlen=_NEWS)
        self._live = (
            Live(console=console, refresh_per_second=8, get_renderable=self._picture) if console.is_terminal else None
        )

    def __enter__(self) -> Self:
        logger = logging.getLogger("relevo")
        logger.addHandler(self)
        logger.propagate = False
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logger = logging.getLogger("relevo")
        logger.removeHandler(self)
        logger.propagate = True
        if self._live is not None:
            self._live.stop()

    # --- what the story says -------------------------------------------------------------------------------------------

    def begin(self, scene: Scene) -> None:
        scene.state = "now"
        self._line(f"{scene.title}: {scene.what}", "bold cyan")

    def end(self, scene: Scene, outcome: str, *, failed: bool = False) -> None:
        scene.state, scene.outcome = "failed" if failed else "done", outcome
        self._line(f"    {outcome}", "red" if failed else "green")

    def news(self, text: str, style: str = "") -> None:
        """One line about something that just happened; the oldest falls off."""
        self._news.append(Text(text, style=style, no_wrap=True, overflow="ellipsis"))
        self._line(f"    {text}", style)

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(record.getMessage().split())
        if not text.startswith(("demo link", "events link")):  # the links of the screen itself
            self.news(text, "dim")

    def _line(self, text: str, style: str) -> None:
        if self._live is None:
            self.console.print(text, style=style, markup=False, soft_wrap=True)

    # --- the picture ---------------------------------------------------------------------------------------------------

    def _picture(self) -> Group:
        return Group(self._acts(), self._queues(), self._happened())

    def _acts(self) -> Panel:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(width=14, no_wrap=True)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        for scene in self.scenes:
            mark, style = _MARKS[scene.state]
            text = Text(scene.outcome or scene.what, style="" if scene.state == "now" else style)
            grid.add_row(
                Text(mark, style=style), Text(scene.title, style="bold" if scene.state == "now" else style), text
            )
        return Panel(grid, title="[bold]relevo[/]", subtitle=self.subtitle, title_align="left", subtitle_align="left")

    def _queues(self) -> Table:
        made = Table(box=ROUNDED, expand=True, header_style="bold")
        made.add_column("queue")
        for column in ("waiting", "running", "delayed", "dead", "done", "a second"):
            made.add_column(column, justify="right", min_width=8)
        for name, row in self.rows.items():
            numbers = (row.waiting, row.running, row.delayed, row.dead, row.done)
            made.add_row(name, *(f"{number:,}".replace(",", " ") for number in numbers), row.rate)
        return made

    def _happened(self) -> Panel:
        lines = [*self._news, *(Text("") for _ in range(_NEWS - len(self._news)))]
        return Panel(Group(*lines), title="what just happened", title_align="left")

    # --- the end -------------------------------------------------------------------------------------------------------

    def summary(self, tally: Tally, seconds: float, epilogue: str = "") -> None:
        made = Table(box=ROUNDED, title="does it add up?", title_justify="left", header_style="bold")
        made.add_column("promise")
        made.add_column("expected", justify="right")
        made.add_column("got", justify="right")
        made.add_column("")
        for check in tally.checks:
            mark = Text("✓", style="green") if check.holds else Text("✗", style="bold red")
            made.add_row(Text(check.what), check.expected, check.got, mark)
        self.console.print(made)
        if tally.holds:
            self.console.print(f"Every number adds up ({seconds:.0f} s).", style="bold green")
        else:
            self.console.print("The numbers do not add up: this is a bug, please report it.", style="bold red")
        if epilogue:
            self.console.print(epilogue, markup=False, highlight=False, soft_wrap=True)
