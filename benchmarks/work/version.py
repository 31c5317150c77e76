"""A relevo that can be measured: this checkout, another one, or a commit that is built for it in a folder of its own."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import NamedTuple

from tests.servers.cache import cache_folder, cache_lock

ROOT = Path(__file__).parents[2]
_EXTRAS = ("cli", "embedded", "fast", "mariadb", "metrics", "postgresql", "server")
"""What `relevo serve` needs on all databases; an old version may lack some, because it has them always."""


class Version(NamedTuple):
    """One version: its name in tables, and the Python that runs it."""

    name: str
    python: Path


def this_checkout() -> Version:
    return Version("this checkout", Path(sys.executable))


def version_of(asked: str) -> Version:
    """`.` is this checkout; a folder is a checkout with a .venv of its own; anything else names a commit."""
    folder = Path(asked)
    if asked == ".":
        return this_checkout()
    if not folder.is_dir():
        return _built(asked)
    python = folder / ".venv" / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"{folder} has no .venv/bin/python: run `make install` there")
    return Version(folder.resolve().name, python.absolute())


def _built(asked: str) -> Version:
    """The commit's files and an environment with the versions it was tested with; made once, kept in the cache."""
    commit = _git("rev-parse", "--verify", f"{asked}^{{commit}}").decode().strip()
    home = cache_folder() / "bench-versions" / commit
    source, python, stamp = home / "source", home / "venv" / "bin" / "python", home / "installed"
    with cache_lock(cache_folder()):
        if not stamp.exists():
            with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as files:
                files.extractall(source, filter="data")
            _run(sys.executable, "-m", "venv", "--clear", str(home / "venv"))
            has = tomllib.loads((source / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            extras = ",".join(name for name in _EXTRAS if name in has)
            install = (str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check")
            _run(*install, "-c", str(source / "constraints.txt"), "-e", f"{source}[{extras}]")
            stamp.touch()
    return Version(commit[:7], python)


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"git {' '.join(words)}: {done.stderr.decode().strip()}")
    return done.stdout


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words[:5])} failed: {done.stderr.strip()[-600:]}")
