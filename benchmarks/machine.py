"""The machine a run was made on, as a reader needs it: no host names, no paths."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe() -> dict[str, str]:
    return {
        "CPU": f"{cores()} cores, {cpu_model()}",
        "memory": memory(),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    for line in _lines("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return " ".join(value.split())
    return platform.processor() or platform.machine()


def memory() -> str:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal:"):
            return f"{int(line.split()[1]) / 2**20:.0f} GiB"
    return "unknown"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:  # not Linux
        return []
