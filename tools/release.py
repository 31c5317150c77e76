"""`make release`: builds the archives, checks them, and tags the commit. It never pushes and never uploads.

It refuses as long as something is not ready, and says what to do about it. Only the last step, the tag, changes the repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from packaging.metadata import Metadata

_SECTION = re.compile(r"^## \[(?P<version>[^\]]+)\] - (?P<day>\S+)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class NotReady(Exception):
    """The release cannot be made; the message says why, and what to do."""


@dataclass(frozen=True)
class Release:
    """One version of the package in the repository at `root`."""

    root: Path
    version: str

    @property
    def tag(self) -> str:
        return f"v{self.version}"

    @classmethod
    def of(cls, root: Path) -> Release:
        """The version that pyproject.toml names; the package must say the same."""
        version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
        said = re.search(r'^__version__ = "(.+)"$', (root / "src/relevo/__init__.py").read_text(), re.MULTILINE)
        if said is None or said[1] != version:
            other = said[1] if said else "nothing"
            raise NotReady(f"pyproject.toml says {version}, src/relevo/__init__.py says {other}: make them equal.")
        return cls(root, version)

    def check_tree(self) -> None:
        """Everything is committed, and the version has no tag yet."""
        if changed := _git(self.root, "status", "--porcelain"):
            raise NotReady(f"There are changes that are not committed:\n{changed}\nCommit or remove them.")
        if _git(self.root, "tag", "--list", self.tag):
            raise NotReady(
                f"The tag {self.tag} exists: raise the version in pyproject.toml and src/relevo/__init__.py."
            )

    def notes(self) -> str:
        """What the changelog says about this version."""
        sections = {found["version"]: found for found in _SECTION.finditer((self.root / "CHANGELOG.md").read_text())}
        found = sections.get(self.version)
        if found is None:
            raise NotReady(
                f"CHANGELOG.md has no section for {self.version}: "
                f"rename `## [Unreleased]` to `## [{self.version}] - {date.today().isoformat()}`."  # noqa: DTZ011 - local
            )
        try:
            date.fromisoformat(found["day"])
        except ValueError:
            raise NotReady(f"CHANGELOG.md dates {self.version} {found['day']!r}: write it as 2030-12-31.") from None
        if not found["text"].strip():
            raise NotReady(f"The section for {self.version} in CHANGELOG.md is empty: say what changed.")
        return found["text"].strip()

    def build(self, folder: Path) -> tuple[Path, Path]:
        """The source archive and the wheel, newly built into `folder`."""
        for old in folder.glob("relevo-*"):
            old.unlink()
        command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
        built = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise NotReady(f"The build failed:\n{built.stdout}{built.stderr}")
        return folder / f"relevo-{self.version}.tar.gz", folder / f"relevo-{self.version}-py3-none-any.whl"

    def check_archives(self, source: Path, wheel: Path) -> None:
        """Both hold what they must, and describe themselves as an index demands."""
        tracked = set(_git(self.root, "ls-files").splitlines())
        problems = [*self._source_problems(source, tracked), *self._wheel_problems(wheel, tracked)]
        if problems:
            raise NotReady("\n".join(["The archives are not fit to be published:", *problems]))

    def set_tag(self, notes: str) -> None:
        """An annotated tag with the changelog's section, on the commit that is checked out."""
        message = f"relevo {self.version}\n\n{notes}\n"
        _git(self.root, "tag", "--annotate", "--cleanup=verbatim", "--file=-", self.tag, said=message)

    def _source_problems(self, source: Path, tracked: set[str]) -> Iterator[str]:
        top = f"relevo-{self.version}/"
        with tarfile.open(source) as archive:
            names = set(archive.getnames())
            yield from (f"{source.name} lacks {name}" for name in sorted(tracked) if top + name not in names)
            described = archive.extractfile(f"{top}PKG-INFO")
            yield from self._metadata_problems(source.name, described.read() if described else b"")

    def _wheel_problems(self, wheel: Path, tracked: set[str]) -> Iterator[str]:
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            wanted = {name.removeprefix("src/") for name in tracked if name.startswith("src/relevo/")}
            about = f"relevo-{self.version}.dist-info"
            yield from (f"{wheel.name} lacks {name}" for name in sorted({*wanted, f"{about}/licenses/LICENSE"} - names))
            others = {name for name in names if not name.startswith(("relevo/", f"{about}/"))}
            yield from (f"{wheel.name} holds {name}, which would land beside the package" for name in sorted(others))
            yield from self._metadata_problems(wheel.name, archive.read(f"{about}/METADATA"))
        program = f"import sys; sys.path.insert(0, {str(wheel)!r}); import relevo; print(relevo.__version__)"
        run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
        if run.stdout.strip() != self.version:
            yield f"{wheel.name} does not import as {self.version}: {run.stdout}{run.stderr}"

    def _metadata_problems(self, name: str, text: bytes) -> Iterator[str]:
        try:
            about = Metadata.from_email(text, validate=True)
        except ExceptionGroup as group:
            yield from (f"{name}: {error}" for error in group.exceptions)
            return
        if (about.name, str(about.version)) != ("relevo", self.version):
            yield f"{name} calls itself {about.name} {about.version}"
        if not about.description or about.description_content_type != "text/markdown":
            yield f"{name} has no description in Markdown"


def _git(root: Path, *arguments: str, said: str | None = None) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, input=said, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotReady(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.rstrip()


def make(root: Path) -> Release:
    """All steps in order; raises `NotReady` at the first that cannot be done."""
    release = Release.of(root)
    release.check_tree()
    notes = release.notes()
    source, wheel = release.build(root / "dist")
    release.check_archives(source, wheel)
    release.set_tag(notes)
    return release


def main() -> None:
    try:
        release = make(Path.cwd())
    except NotReady as reason:
        sys.exit(str(reason))
    print(f"Tagged {release.tag}. The archives are in dist/. Nothing was pushed; to publish:")
    print(f"  git push origin {release.tag}")
    print("  twine upload dist/*")


if __name__ == "__main__":
    main()
