"""Takes packages from Debian's archive into a folder of our own; nothing of the machine's own is touched.

A private apt root knows the suites we ask for, downloads a package with everything it needs (libc included) and checks
the signatures. Each package is then unpacked into a prefix, and its programs are started with that prefix's loader, so
that a server built for a newer Debian runs on this one.
"""

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# Settings of the machine's apt that also hold for ours: how to reach the archive, not what to do after an update.
_INHERITED = re.compile(r'^Acquire::(http|https|ftp|Retries|Check-Valid-Until|ForceIPv)[^ ]* ".+";$', re.IGNORECASE)


class DebianUnavailable(Exception):
    """Debian's archive cannot be used on this machine; the message says why."""


def archive_uri() -> str:
    """The Debian archive this machine already uses, read from its own apt sources."""
    etc = Path("/etc/apt")
    for source in (etc / "sources.list", *sorted(etc.glob("sources.list.d/*"))):
        if source.suffix not in {".list", ".sources"} or not source.is_file():
            continue
        text = source.read_text(errors="replace")
        found = _deb822_uris(text) if source.suffix == ".sources" else _one_line_uris(text)
        for uri in found:
            if uri.rstrip("/").endswith("/debian"):  # neither debian-security nor a third party's archive
                return uri
    raise DebianUnavailable("this machine's apt sources name no Debian archive")


def _deb822_uris(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", paragraph, re.MULTILINE))
        if "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes").strip().lower() != "no":
            yield from fields.get("URIs", "").split()


def _one_line_uris(text: str) -> Iterator[str]:
    for match in re.finditer(r"^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s", text, re.MULTILINE):
        yield match[1]


class DebianArchive:
    """A private apt root over the given suites."""

    def __init__(self, root: Path, suites: tuple[str, ...]) -> None:
        missing = [tool for tool in ("apt-get", "apt-config", "dpkg-deb") if shutil.which(tool) is None]
        if missing:
            raise DebianUnavailable(f"this machine has no {', '.join(missing)}")
        if not KEYRING.exists():
            raise DebianUnavailable("this machine lacks the Debian archive keyring (package debian-archive-keyring)")
        self._root = root
        self._config = root / "apt.conf"
        for folder in ("state/lists/partial", "cache/archives/partial", "log", "empty"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "status").write_bytes(b"")  # nothing is installed: every dependency is downloaded
        (root / "debian.sources").write_text(
            f"Types: deb\nURIs: {archive_uri()}\nSuites: {' '.join(suites)}\nComponents: main\nSigned-By: {KEYRING}\n"
        )
        self._config.write_text("\n".join([*self._inherited(), *self._settings()]) + "\n")
        self._apt("update")

    def fetch(
        self, package: str, *, suite: str, into: Path, share: tuple[str, ...] = (), leave_out: tuple[str, ...] = ()
    ) -> None:
        """Downloads `package` of `suite` with all it depends on, and unpacks them into the prefix `into`: without the packages
        `leave_out`, and with nothing of `usr/share` but the folders named."""
        archives = self._root / "cache" / "archives"
        for stale in archives.glob("*.deb"):
            stale.unlink()
        self._apt("install", "--download-only", "--yes", "--no-install-recommends", "-t", suite, package)
        into.mkdir(parents=True, exist_ok=True)
        for deb in sorted(archives.glob("*.deb")):
            if deb.name.partition("_")[0] not in leave_out:
                _run("dpkg-deb", "-x", str(deb), str(into))
        for folder in (into / "usr" / "share").glob("*"):
            if folder.name not in share:  # manuals and locales
                shutil.rmtree(folder, ignore_errors=True)

    def _settings(self) -> Iterator[str]:
        yield f'Dir::Etc::SourceList "{self._root}/debian.sources";'
        yield f'Dir::Etc::SourceParts "{self._root}/empty";'
        yield f'Dir::Etc::Preferences "{self._root}/empty/preferences";'
        yield f'Dir::Etc::PreferencesParts "{self._root}/empty";'
        yield f'Dir::Etc::Main "{self._root}/empty/apt.conf";'
        yield f'Dir::Etc::Parts "{self._root}/empty";'
        yield f'Dir::State "{self._root}/state";'
        yield f'Dir::State::Status "{self._root}/status";'
        yield f'Dir::Cache "{self._root}/cache";'
        yield f'Dir::Log "{self._root}/log";'
        yield f'APT::Sandbox::User "{getpass.getuser()}";'  # the cache folder may be closed to apt's own user
        yield 'Acquire::Languages "none";'
        yield 'Acquire::GzipIndexes "true";'
        yield 'Acquire::Retries "3";'

    @staticmethod
    def _inherited() -> Iterator[str]:
        for line in _run("apt-config", "dump").splitlines():
            if _INHERITED.match(line):
                yield line

    def _apt(self, *args: str) -> None:
        _run("apt-get", "-q", *args, env={**os.environ, "APT_CONFIG": str(self._config), "LC_ALL": "C"})


def loader_command(prefix: Path, program: str) -> list[str]:
    """How to start `program` of an unpacked prefix: by the prefix's own loader and libraries."""
    loaders = sorted(prefix.glob("usr/lib/*/ld-linux*.so.*")) or sorted(prefix.glob("lib/*/ld-linux*.so.*"))
    if not loaders:
        raise DebianUnavailable(f"{prefix} holds no dynamic loader")
    triplet = loaders[0].parent.name
    libraries = [str(folder) for part in ("usr/lib", "lib") if (folder := prefix / part / triplet).is_dir()]
    return [
        *(str(loaders[0]), "--argv0", program, "--library-path", ":".join(libraries)),
        str(prefix / "usr" / "bin" / program),
    ]


def _run(*command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise DebianUnavailable(f"`{' '.join(command[:3])} …` failed: {' / '.join(lines[-3:])}")
    return done.stdout
