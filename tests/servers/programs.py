"""Programs of the databases: the machine's own, else Debian's packages unpacked into a folder of ours.

The packages come from the suite this machine runs on, so its own libc and loader serve them: unlike the Redis programs in
`binary.py` these start each other (`initdb` starts `postgres`), which no loader's command line survives.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.pace import limit
from tests.servers.binary import ServerUnavailable
from tests.servers.cache import cache_lock, open_cache_folder
from tests.servers.debian import DebianArchive, DebianUnavailable

MACHINE = Path("/")


@dataclass(frozen=True)
class Programs:
    """A database's programs by their names, and the environment to start them in."""

    paths: Mapping[str, Path]
    version: str
    own: bool
    """Whether they are the machine's own."""
    root: Path = MACHINE
    libraries: str = ""
    """What the loader has to be told, when they are not."""

    @property
    def environment(self) -> dict[str, str]:
        """What to start them with."""
        return {**os.environ, "LD_LIBRARY_PATH": self.libraries} if self.libraries else dict(os.environ)


@dataclass(frozen=True)
class Database:
    """A database we need: its Debian package, its programs, and where Debian's packages put them."""

    name: str
    package: str
    programs: tuple[str, ...]
    """The first is the server."""
    folders: tuple[str, ...]
    share: tuple[str, ...]

    @property
    def remedy(self) -> str:
        wanted = " and ".join(f"`{each}`" for each in self.programs)
        return f"install it (Debian: `apt-get install {self.package}`), or put its {wanted} on the PATH"


POSTGRES = Database(
    "postgres", "postgresql", ("postgres", "initdb"), ("usr/lib/postgresql/*/bin",), share=("postgresql",)
)
MARIADB = Database("mariadb", "mariadb-server", ("mariadbd", "mariadb-install-db"), ("usr/*bin",), share=("mysql",))
DATABASES = (POSTGRES, MARIADB)

_known: dict[Database, Programs | ServerUnavailable] = {}


def programs_of(database: Database) -> Programs:
    """The database's programs, installed now if need be; asked for once in a run. Raises ServerUnavailable."""
    if database not in _known:
        _known[database] = provide_database(database)
    got = _known[database]
    if isinstance(got, ServerUnavailable):
        raise got
    return got


def provide_database(database: Database, *, machine: Path = MACHINE) -> Programs | ServerUnavailable:
    """Finds the programs on the `machine` or in our folder, else gets them from Debian's archive."""
    if found := find_database(database, machine=machine):
        return found
    folder = open_cache_folder()
    with cache_lock(folder):
        try:
            return _in_prefix(database, folder) or _install(database, folder)
        except (DebianUnavailable, ServerUnavailable) as error:
            return ServerUnavailable(f"{error}; {database.remedy}")


def find_database(database: Database, *, machine: Path = MACHINE) -> Programs | None:
    """The programs if they are already here: on the machine, or installed by us before."""
    paths = _paths(database, machine)
    if machine == MACHINE and (found := {each: path for each in database.programs if (path := shutil.which(each))}):
        paths = {**paths, **{name: Path(path) for name, path in found.items() if name not in paths}}
    if paths.keys() == set(database.programs):
        return Programs(paths, _version(paths[database.programs[0]]), own=True, root=machine)
    return _in_prefix(database, open_cache_folder())


def _paths(database: Database, root: Path) -> dict[str, Path]:
    """Where the package has put its programs; the newest version of several."""
    found: dict[str, Path] = {}
    for pattern in database.folders:
        for folder in sorted(
            root.glob(pattern), key=lambda path: [int(part) for part in re.findall(r"\d+", str(path))]
        ):
            found |= {each: folder / each for each in database.programs if (folder / each).exists()}
    return found


def _in_prefix(database: Database, folder: Path) -> Programs | None:
    prefix = folder / database.name
    ready = prefix / "ready.json"
    if not ready.exists():
        return None
    version = json.loads(ready.read_text())["version"]
    return Programs(_paths(database, prefix), version, own=False, root=prefix, libraries=_libraries(prefix))


def _install(database: Database, folder: Path) -> Programs:
    prefix = folder / database.name
    shutil.rmtree(prefix, ignore_errors=True)
    suite = _suite()
    with tempfile.TemporaryDirectory(prefix="apt-", dir=folder) as scratch:
        archive = DebianArchive(Path(scratch), (suite,))
        # Their libc would need their loader as well: this machine's are of the same suite.
        archive.fetch(database.package, suite=suite, into=prefix, share=database.share, leave_out=("libc6", "libc-bin"))
    paths = _paths(database, prefix)
    if missing := set(database.programs) - paths.keys():
        raise ServerUnavailable(f"Debian's {database.package} of {suite} holds no {', '.join(sorted(missing))}")
    version = _version(paths[database.programs[0]], _libraries(prefix))
    # Written last: it is what makes the prefix count.
    (prefix / "ready.new").write_text(json.dumps({"version": version}))
    (prefix / "ready.new").rename(prefix / "ready.json")
    found = _in_prefix(database, folder)
    assert found is not None, "it has just been written"
    return found


def _libraries(prefix: Path) -> str:
    folders = [each for pattern in ("usr/lib/*-linux-*", "lib/*-linux-*") for each in sorted(prefix.glob(pattern))]
    return ":".join(map(str, folders))


def _suite() -> str:
    release = Path("/etc/os-release")
    text = release.read_text() if release.exists() else ""
    match = re.search(r"^VERSION_CODENAME=\"?([a-z]+)", text, re.MULTILINE)
    if match is None or not re.search(r"^ID=\"?debian\b", text, re.MULTILINE):
        raise DebianUnavailable("this machine is no Debian")
    return match[1]


def _version(program: Path, libraries: str = "") -> str:
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None
    try:
        done = subprocess.run(
            [program, "--version"], env=environment, capture_output=True, text=True, check=True, timeout=limit(20)
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerUnavailable(f"{program.name} does not run here: {error}") from error
    match = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
    return match[0] if match else done.stdout.strip()
