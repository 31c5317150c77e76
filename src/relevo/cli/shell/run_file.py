"""Where a running `relevo up` is: a file in its data folder, so that the commands in that folder find it by themselves."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "up.json"
DATA = "data"
"""The data folder of `relevo up`, unless RELEVO_DATA or --data names another."""


@dataclass(frozen=True)
class Running:
    """The addresses of a platform that runs."""

    pid: int
    redis_url: str
    work_url: str | None = None


@contextmanager
def running_in(folder: Path, redis_url: str, work_url: str | None) -> Generator[None]:
    """Says so in the folder for as long as the block runs. The file is locked meanwhile: the lock goes with the process,
    however it ends, and a file without one tells nobody anything."""
    import fcntl

    file = folder / NAME
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(asdict(Running(os.getpid(), redis_url, work_url))).encode())
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def data_folder() -> Path:
    """The data folder of the platform that belongs to the current folder."""
    return Path(os.environ.get("RELEVO_DATA") or DATA)


def place_of(folder: Path) -> str:
    """A data folder as people write it.

    >>> place_of(Path("data")), place_of(Path("/srv/data"))
    ('./data', '/srv/data')
    """
    return str(folder) if folder.is_absolute() else f"./{folder}"


def find_running(folder: Path) -> Running | None:
    """The platform that runs in this data folder; None when none does. Only a file of our own user is believed: it says where
    jobs and keys are sent."""
    if sys.platform == "win32":  # the embedded server does not run there
        return None
    import fcntl

    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            return None
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None  # nobody holds it: what wrote it is gone
        with contextlib.suppress(ValueError, TypeError):
            return Running(**json.loads(os.read(descriptor, 4096)))
    finally:
        os.close(descriptor)
    return None
