"""`make release`: made in a small repository of its own, from a clean tree to the tag."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.page import ROOT
from tools.release import NotReady, Release, make

CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.3] - 2030-12-31

### Added

- Everything.

## [1.2.2] - 2030-01-01
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A package of the name, with our build settings and one commit."""
    root = tmp_path / "repository"
    (root / "src/relevo").mkdir(parents=True)
    settings = (ROOT / "pyproject.toml").read_text()
    (root / "pyproject.toml").write_text(
        settings.replace(f'version = "{Release.of(ROOT).version}"', 'version = "1.2.3"')
    )
    for name in ("README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, root)
    (root / "src/relevo/__init__.py").write_text('__version__ = "1.2.3"\n')
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    git(root, "init", "--quiet")
    for setting in ("user.name=Ada", "user.email=ada@example.org", "commit.gpgsign=false", "tag.gpgsign=false"):
        git(root, "config", *setting.split("="))
    commit(root)
    return root


def test_a_release_is_built_checked_and_tagged(repository: Path) -> None:
    make(repository)
    built = sorted(path.name for path in (repository / "dist").iterdir())
    assert built == ["relevo-1.2.3-py3-none-any.whl", "relevo-1.2.3.tar.gz"]
    assert git(repository, "cat-file", "-t", "v1.2.3") == "tag\n"
    message = git(repository, "tag", "--list", "--format=%(contents)", "v1.2.3")
    assert message.strip() == "relevo 1.2.3\n\n### Added\n\n- Everything."
    assert git(repository, "status", "--porcelain") == ""


def test_a_dirty_tree_is_refused(repository: Path) -> None:
    (repository / "new.py").write_text("")
    refused(repository, r"not committed:\n\?\? new\.py")


def test_a_version_is_released_once(repository: Path) -> None:
    git(repository, "tag", "v1.2.3")
    refused(repository, r"tag v1\.2\.3 exists: raise the version", tags="v1.2.3")


def test_two_versions_are_refused(repository: Path) -> None:
    (repository / "src/relevo/__init__.py").write_text('__version__ = "1.2.4"\n')
    commit(repository)
    refused(repository, r"pyproject\.toml says 1\.2\.3, src/relevo/__init__\.py says 1\.2\.4")


@pytest.mark.parametrize(
    ("changelog", "reason"),
    [
        ("## [Unreleased]\n\n- Everything.\n", r"no section for 1\.2\.3: rename `## \[Unreleased\]`"),
        ("## [1.2.3] - soon\n\n- Everything.\n", r"dates 1\.2\.3 'soon'"),
        ("## [1.2.3] - 2030-12-31\n\n## [1.2.2] - 2030-01-01\n\n- Something.\n", r"section for 1\.2\.3 .* is empty"),
    ],
    ids=["absent", "undated", "empty"],
)
def test_the_changelog_must_speak_of_the_version(repository: Path, changelog: str, reason: str) -> None:
    (repository / "CHANGELOG.md").write_text(changelog)
    commit(repository)
    refused(repository, reason)


def test_an_archive_that_lacks_a_file_is_refused(repository: Path) -> None:
    settings = (repository / "pyproject.toml").read_text()
    narrow = '[tool.hatch.build.targets.sdist]\ninclude = ["src"]\n'
    (repository / "pyproject.toml").write_text(f"{settings}\n{narrow}")
    commit(repository)
    refused(repository, r"relevo-1\.2\.3\.tar\.gz lacks CHANGELOG\.md")


def test_a_wheel_with_a_stranger_inside_is_refused(repository: Path, tmp_path: Path) -> None:
    release = Release.of(repository)
    source, wheel = release.build(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/__init__.py", "")
    with pytest.raises(NotReady, match=r"holds tests/__init__\.py"):
        release.check_archives(source, wheel)


def test_a_package_that_does_not_import_is_refused(repository: Path) -> None:
    (repository / "src/relevo/__init__.py").write_text('import nowhere\n\n__version__ = "1.2.3"\n')
    commit(repository)
    refused(repository, r"does not import as 1\.2\.3: [\s\S]*No module named 'nowhere'")


def refused(repository: Path, reason: str, *, tags: str = "") -> None:
    with pytest.raises(NotReady, match=reason):
        make(repository)
    assert git(repository, "tag", "--list").strip() == tags, "a release that was refused leaves no tag"


def commit(repository: Path) -> None:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Change it")


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout
