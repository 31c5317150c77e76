"""Where downloaded servers are kept: a folder outside the checkout, shared by every run of this user."""

import fcntl
import getpass
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """`RELEVO_CACHE`, else relevo's folder in the user's cache, else (no writable HOME) one in the temp folder."""
    if chosen := os.environ.get("RELEVO_CACHE"):
        folder = Path(chosen)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "relevo"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: no home folder can be told at all
        pass
    folder = Path(tempfile.gettempdir()) / f"relevo-cache-{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        # Someone else made it first; binaries are run from here, so theirs are not to be trusted.
        return Path(tempfile.mkdtemp(prefix="relevo-cache-"))
    return folder


def open_cache_folder() -> Path:
    """A cache folder that other users can read as well: root's database programs are run by another user.

    The usual one if nothing on the way to it is closed to others, else one for the whole machine.
    """
    usual = cache_folder()
    if os.getuid() != 0 or all(folder.stat().st_mode & 0o005 == 0o005 for folder in (usual, *usual.resolve().parents)):
        return usual
    folder = Path("/var/cache/relevo")
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return folder


@contextmanager
def cache_lock(folder: Path) -> Generator[None]:
    """One installer at a time: a second run waits here and then finds the work done."""
    with (folder / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
