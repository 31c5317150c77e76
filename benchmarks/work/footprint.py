"""What a program and all that it started use: CPU time and memory, as the kernel counts them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU seconds so far of a process, of those it started, and of those of them that have ended."""
    ended = sum(map(int, _stat(pid)[13:15]))
    return (ended + sum(sum(map(int, _stat(each)[11:13])) for each in family(pid))) / _TICKS


def peak_mb(pid: int) -> float:
    """The most memory that the largest of these processes has had since `forget_peak`."""
    return max((_status(each, "VmHWM") for each in family(pid)), default=0.0)


def forget_peak(pid: int) -> None:
    """From now on counts the peak anew."""
    for each in family(pid):
        with contextlib.suppress(OSError):  # a kernel without it: the peak is that of the whole life
            Path(f"/proc/{each}/clear_refs").write_text("5")


def family(pid: int) -> list[int]:
    """The process, those it started, and those they started."""
    found = [pid]
    for each in found:
        for thread in _names(Path(f"/proc/{each}/task")):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{each}/task/{thread}/children").read_text().split())
    return found


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile
        return ["0"] * 20


def _status(pid: int, name: str) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
