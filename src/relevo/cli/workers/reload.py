"""Changes of source files, for `relevo worker --reload`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


async def changed_files(folder: Path, *, every: float = 0.5) -> AsyncGenerator[str]:
    """The path of a .py file below `folder` that came, went or was written; one for each look that finds any.

    By modification times: that works on every file system, also on those of containers and virtual machines.
    """
    known = await asyncio.to_thread(_times, folder)
    while True:
        await asyncio.sleep(every)
        now = await asyncio.to_thread(_times, folder)
        different = now.items() ^ known.items()
        known = now
        if different:
            yield min(path for path, _ in different)


def _times(folder: Path) -> dict[str, int]:
    return {str(file.relative_to(folder)): time for file, time in _sources(folder)}


def _sources(folder: Path) -> Iterator[tuple[Path, int]]:
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
        for name in files:
            if name.endswith(".py"):
                file = Path(where, name)
                try:
                    yield file, file.stat().st_mtime_ns
                except FileNotFoundError:  # gone between the listing and the look
                    continue
