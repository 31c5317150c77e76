"""Debian's Chromium for the tests that look at pages: found on the PATH, or installed when this is root on a Debian machine."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.servers.binary import ServerUnavailable
from tests.servers.cache import cache_lock, open_cache_folder

NAME = "chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",  # root has none
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",  # nothing but loopback is reached
)


def find_chromium() -> Path | None:
    """The program, if there is one; RELEVO_CHROMIUM names another than the PATH's."""
    named = os.environ.get("RELEVO_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    return Path(found) if found else None


def provide_chromium() -> Path | ServerUnavailable:
    """The program, installed from Debian's archive if need be and if we may."""
    if (found := find_chromium()) is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return ServerUnavailable("install it (Debian: `apt-get install chromium`), or name it in RELEVO_CHROMIUM")
    with cache_lock(open_cache_folder()):
        if (found := find_chromium()) is not None:
            return found
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            ("update", "-qq"),
            ("install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"),
        ):
            done = subprocess.run(["apt-get", *command], capture_output=True, text=True, env=quiet, check=False)
        found = find_chromium()
        return found or ServerUnavailable(f"apt-get install chromium said: {done.stderr.strip()[-300:]}")
