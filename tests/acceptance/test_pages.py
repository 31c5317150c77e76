"""Every example of the README and of docs/ runs, and prints what the page says it prints."""

import inspect
import re
import tempfile
from functools import cached_property
from pathlib import Path

import pytest

from relevo.pipeline.commands.tries import Tries
from relevo.wire.keys import QueueKeys
from tests.harness.needs import page_on_spark
from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.command_line import shell_environment
from tests.support.page import ROOT, WRITTEN_URL, WRITTEN_WORK_URL, Block, blocks_of, pages
from tests.support.serve_process import ServeProcess

PAGES = pages()
PYTHON_PAGES = [page for page in PAGES if any(each.language == "python" for each in blocks_of(page))]
SHELL_PAGES = [page for page in PAGES if any(each.runs_in_shell for each in blocks_of(page))]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _patience(page: Path) -> list[pytest.MarkDecorator]:
    """A page about Spark may have to wait for the start of its session."""
    return [pytest.mark.timeout(180)] if page_on_spark(page) else []


@pytest.mark.parametrize("page", [pytest.param(page, marks=_patience(page)) for page in PYTHON_PAGES], ids=_name)
def test_every_python_example_of_a_page_runs_in_order(
    page: Path,
    valkey: Server,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # a page may write files
    work_url = _work_url(page, request)

    def run() -> None:
        namespace: dict[str, object] = {"__name__": "page"}
        for block in blocks_of(page):
            if block.language == "python":
                _run_python(block, namespace, valkey.url, work_url)
                printed = capsys.readouterr().out
                if block.prints is not None:
                    assert printed == block.prints, f"{block.place} prints something else than the page says"

    def run_anew() -> None:
        monkeypatch.chdir(tempfile.mkdtemp(dir=tmp_path))
        capsys.readouterr()
        valkey.call("FLUSHALL")
        run()

    if page_on_spark(page):
        request.getfixturevalue("spark")
        Tries().run(run_anew, page.name)  # as patient with a busy machine as an ingest is
    else:
        run()


@pytest.mark.parametrize("page", SHELL_PAGES, ids=_name)
def test_every_shell_example_of_a_page_runs_in_order(
    page: Path, valkey: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    work_url = _work_url(page, request)
    environment = shell_environment(tmp_path, valkey.url)
    for block in blocks_of(page):
        if block.runs_in_shell:
            script = block.text.replace(WRITTEN_URL, valkey.url).replace(WRITTEN_WORK_URL, work_url)
            done = Child.run("bash", "-euo", "pipefail", "-c", script, cwd=tmp_path, env=environment)
            assert done.code == 0, f"{block.place} ended with {done.code}:\n{done.out}{done.err}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_only_shell_examples_may_be_left_out(page: Path) -> None:
    known = {"python", "sh", "text", "mermaid", "lua", "ini"}
    if page.name == "views.md":
        known.add("sql")  # tests/api/test_views.py runs these, on every database
    for block in blocks_of(page):
        assert block.language in known, f"{block.place} has the language {block.language!r}; use one of {sorted(known)}"
        assert block.language == "sh" or not block.marked_not_run, f"{block.place} is Python and must run"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    broken = [
        target
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_key_of_a_queue_stands_in_the_page_about_the_wire() -> None:
    page = (ROOT / "docs/wire.md").read_text()
    told = {re.sub(r"<[^>]+>", "X", key) for key in re.findall(r"`(:[\w:<> -]+)`", page)}
    keys, written = QueueKeys("q"), set[bytes]()
    for name, member in vars(QueueKeys).items():
        if isinstance(member, cached_property):
            written.add(getattr(keys, name))
        elif inspect.isfunction(member) and not name.startswith("_"):
            written.add(member(keys, "X"))
    assert len(written) > 15
    assert sorted({key.decode().removeprefix("{chasqui:q}") for key in written} - told) == []


def test_every_test_named_in_the_guarantees_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/guarantees.md").read_text()))
    written = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)", written))
    assert len(named) > 20
    assert sorted(named - there) == []


def test_a_block_knows_its_line_its_output_and_whether_it_runs() -> None:
    fence = "```"
    program = f"a\n\n{fence}python\nprint(1)\n{fence}\n\nprints\n\n{fence}text\n1\n{fence}\n"
    text = f"{program}\n<!-- not run: stays -->\n{fence}sh\nx\n{fence}\n"
    python, output, shell = blocks_of(ROOT / "README.md", text)
    assert (python.line, python.text, python.prints) == (3, "print(1)\n", "1\n")
    assert (output.language, python.marked_not_run) == ("text", False)
    assert shell.marked_not_run


def _work_url(page: Path, request: pytest.FixtureRequest) -> str:
    """Where this page finds work queues: a page that names them gets its own."""
    if WRITTEN_WORK_URL not in page.read_text():
        return WRITTEN_WORK_URL
    served: ServeProcess = request.getfixturevalue("work_queues")
    return served.url


def _run_python(block: Block, namespace: dict[str, object], url: str, work_url: str) -> None:
    # Empty lines before it: a traceback then shows the page's own line numbers.
    source = "\n" * block.line + block.text.replace(WRITTEN_URL, url).replace(WRITTEN_WORK_URL, work_url)
    exec(compile(source, str(block.page), "exec", dont_inherit=True), namespace)  # noqa: S102 - our own pages
