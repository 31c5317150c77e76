"""A page of the documentation as a program: its fenced blocks, in order."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What the pages write for "the server of `relevo up`"; the tests put the address of theirs in its place.
WRITTEN_URL = "redis://127.0.0.1:6390"
WRITTEN_WORK_URL = "http://127.0.0.1:6391"

_FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: \S.*-->\s*\Z")


@dataclass(frozen=True)
class Block:
    """One fenced block. `prints` is the text block that follows a program right away, None when there is none."""

    page: Path
    line: int
    language: str
    text: str
    marked_not_run: bool
    prints: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def runs_in_shell(self) -> bool:
        return self.language == "sh" and not self.marked_not_run


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path, text: str | None = None) -> Iterator[Block]:
    text = page.read_text() if text is None else text
    fences = list(_FENCE.finditer(text))
    for at, fence in enumerate(fences):
        following = fences[at + 1] if at + 1 < len(fences) else None
        prints = None
        if following is not None and following["language"] == "text":
            between = text[fence.end() : following.start()].strip()
            prints = following["text"] if between in ("", "prints") else None
        yield Block(
            page,
            text.count("\n", 0, fence.start()) + 1,
            fence["language"],
            fence["text"],
            _NOT_RUN.search(text[: fence.start()]) is not None,
            prints,
        )
