"""`pip install relevo` brings what a producer and a worker need: few packages, at most 25 MB, on every Python that is named."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import relevo
from tests.pace import limit
from tests.servers.server import Server
from tests.support.page import ROOT

LIMIT_MB = 25
BASE = {"hiredis", "msgpack", "msgspec", "tzdata"}
JOB = Path(__file__).with_name("lean_job.py")
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
"""What `python -m venv` puts into every environment."""


def base_packages() -> set[str]:
    """What the base install brings, with what that needs in turn."""
    found: set[str] = set()
    asked: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    while asked:
        needed = Requirement(asked.pop())
        name = needed.name.lower()
        if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            found.add(name)
            asked += metadata.requires(name) or []
    return found


def test_a_producer_and_a_worker_need_four_packages() -> None:
    assert base_packages() == BASE


def test_the_base_install_is_at_most_25_mb(tmp_path: Path) -> None:
    lean_folder(tmp_path)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tmp_path)], check=True)
    assert megabytes(tmp_path) <= LIMIT_MB


def test_a_producer_and_a_worker_run_on_the_base_alone(valkey: Server, queue_name: str, tmp_path: Path) -> None:
    lean_folder(tmp_path)
    # -S: without the packages of this environment; what is in the folder is all there is.
    program = (
        f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); runpy.run_path({str(JOB)!r}, run_name='__main__')"
    )
    done = run([sys.executable, "-S", "-W", "error", "-c", program, valkey.url, queue_name])
    assert (done.returncode, done.stdout) == (0, "Hello, Ada!\n"), done.stderr


def test_the_command_without_its_extra_names_the_line_to_type(tmp_path: Path) -> None:
    lean_folder(tmp_path)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from relevo.__main__ import main; main()"
    done = run([sys.executable, "-S", "-c", program, "inspect", "emails"])
    assert done.returncode == 1
    assert "pip install 'relevo[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_public_name_is_there_on_the_base_alone(tmp_path: Path) -> None:
    lean_folder(tmp_path)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from relevo import *"
    done = run([sys.executable, "-S", "-c", program])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("import relevo.client", "client"),
        ("import relevo.outbox", "outbox"),
        ("from relevo.work.work_queues import WorkQueues", "server"),
        ("from relevo import Metrics; Metrics()", "metrics"),
        ("from relevo import Queue; Queue('q', tracing=True)", "otel"),
        ("from relevo.broker.embedded import EmbeddedServer; EmbeddedServer('data').start()", "embedded"),
        ("from relevo.spark import session; session()", "spark"),
    ],
)
def test_what_misses_a_package_names_the_line_to_type(statement: str, extra: str, lean: Path, tmp_path: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(lean)!r}); {statement}"
    done = run([sys.executable, "-S", "-c", program], tmp_path)
    assert done.returncode == 1
    assert f"pip install 'relevo[{extra}]'" in done.stderr.splitlines()[-1], done.stderr


def test_the_classifiers_name_every_python_that_is_supported() -> None:
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert named == ["3.11", "3.12", "3.13", "3.14"]


@pytest.mark.scale
@pytest.mark.timeout(900)
def test_a_fresh_environment_of_each_python_runs_it(valkey: Server, queue_name: str, tmp_path: Path) -> None:
    """Needs a package index; the others above look at the same things without one."""
    wheel = built_wheel(tmp_path / "dist")
    ran: list[str] = []
    for version, python in pythons().items():
        place = tmp_path / version
        subprocess.run([python, "-m", "venv", str(place)], check=True)
        inside = str(place / "bin" / "python")
        subprocess.run([inside, "-m", "pip", "install", "-q", "--only-binary=:all:", str(wheel)], check=True)
        (packages,) = place.glob("lib/python*/site-packages")
        subprocess.run([inside, "-m", "compileall", "-q", str(packages)], check=False)
        assert megabytes(packages) <= LIMIT_MB
        done = run([inside, "-W", "error", str(JOB), valkey.url, f"{queue_name}-{version}"])
        assert (done.returncode, done.stdout) == (0, "Hello, Ada!\n"), f"Python {version}: {done.stderr}"
        said = run([str(place / "bin" / "relevo"), "inspect", "emails"])
        assert "pip install 'relevo[cli]'" in said.stderr
        ran.append(version)
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in ran


# --- what the tests look at --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lean_folder(tmp_path_factory.mktemp("lean"))


def lean_folder(folder: Path) -> Path:
    """The package and the packages of its base install, copied: nothing else can be imported from there."""
    for name in BASE:
        for file in metadata.files(name) or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), target)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(relevo.__file__).parent, folder / "relevo", ignore=ignored)
    return folder


def megabytes(folder: Path) -> float:
    """What it takes on the disk, in blocks of 4 KiB, without what every environment has."""
    files = [
        file
        for file in folder.rglob("*")
        if file.is_file() and file.relative_to(folder).parts[0].partition("-")[0] not in NOT_OURS
    ]
    return sum(-(-file.stat().st_size // 4096) * 4096 for file in files) / 2**20


def built_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("relevo-*.whl")
    return wheel


def pythons() -> dict[str, str]:
    """The Pythons of this machine, by version, on the PATH or below ~/.pyenv."""
    found: dict[str, str] = {}
    for minor in range(11, 15):
        here = shutil.which(f"python3.{minor}")
        kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/python3.{minor}"))
        candidates = [str(each) for each in kept] + ([here] if here else [])
        if candidates:
            found[f"3.{minor}"] = candidates[0]
    found.setdefault(f"{sys.version_info.major}.{sys.version_info.minor}", sys.executable)
    return found


def run(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RELEVO"))}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=limit(60), cwd=folder, env=environment, check=False
    )
