"""The source archive (sdist) holds everything that is in the repository: who unpacks it can run `make test`."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.page import ROOT

MADE_BY_THE_BUILD = {"PKG-INFO"}


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a freshly built archive, by their path inside of it."""
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        return {name.partition("/")[2] for name in packed.getnames()}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout knows what an archive must hold")
def test_the_archive_holds_every_file_of_the_repository_and_nothing_else(members: set[str]) -> None:
    tracked = _git("ls-files")
    assert sorted(tracked - members) == []
    being_written = _git("ls-files", "--others", "--exclude-standard")
    assert sorted(members - tracked - being_written - MADE_BY_THE_BUILD) == []


def test_the_archive_holds_every_file_that_the_makefile_names(members: set[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    files = set(re.findall(r"(?<![\w./$(-])[\w/-]+\.(?:py|txt|toml)\b", makefile))
    modules = {name.replace(".", "/") for name in re.findall(r"-m ((?:tests|benchmarks)[\w.]*)", makefile)}
    assert {"constraints.txt", "requirements-interop.txt", "tests/harness/environment.py"} <= files
    assert {"benchmarks", "tests/servers/install"} <= modules
    assert sorted(files - members) == []
    assert [name for name in sorted(modules) if not {f"{name}.py", f"{name}/__main__.py"} & members] == []


def _git(*arguments: str) -> set[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return {line for line in done.stdout.splitlines() if Path(ROOT, line).exists()}
