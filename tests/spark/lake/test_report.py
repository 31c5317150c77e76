"""The report: its numbers are gold's, it needs nothing but itself, and a browser shows it in light and dark. No Spark here."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page

from relevo.pipeline.commands.report import report
from relevo.pipeline.lake.lake import Lake
from tests.contrast import contrast, light
from tests.servers.child import Child
from tests.spark.lake import wide

START = datetime(2026, 11, 15, 8, tzinfo=UTC)
DAY = 20_772  # 2026-11-15
NASTY = '<script>document.title="broken"</script>'
SECTIONS = "Throughput Latency Percentiles Failures Objectives Usage The"
"""The first words of the headings."""

SENDS = {"queue": "emails", "name": "send"}
RUNS = {"arrived": 10, "started": 10, "done": 9, "failed": 1, "retried": 1, "lost": 0, "cancelled": 0, "busy_ms": 500.0}
TIMES = {"p50_ms": 12.0, "p90_ms": 40.0, "p95_ms": 55.0, "p999_ms": 400.0, "max_ms": 500.0}
EXPECTED = {
    "arrivals": 100.0,
    "arrivals_high": 130.0,
    "backlog": 0.0,
    "mean_run_s": 0.05,
    "workers": 2,
    "wait_target_s": 10.0,
}


def gold(folder: Path) -> Lake:
    """A lake with two hours of gold, written by hand."""
    lake = Lake(folder)
    minutes = [START + timedelta(minutes=number) for number in range(120)]
    throughput = [
        {"minute": at, "queue": queue, "name": "send", **RUNS, "dead": int(number == 60), "backlog": number % 7}
        for number, at in enumerate(minutes)
        for queue in ("emails", "orders")
    ]
    put(lake, "gold.throughput", throughput)
    latency = [
        {"grain": grain, "at": at, **SENDS, "measure": measure, "count": 10, **TIMES, "p99_ms": 80.0 + number}
        for grain, times in (("minute", minutes), ("day", [START.replace(hour=0)]))
        for number, at in enumerate(times)
        for measure in ("wait", "run", "total")
    ]
    put(lake, "gold.latency", latency)
    failure = {"kind": "failed", "reason": f"no such user {NASTY}", "count": 7, "share": 1.0}
    example = {"example": "no such user 'ada'", "example_job_id": "j"}
    put(
        lake,
        "gold.failures",
        [{"day": START, **SENDS, **failure, "first_seen_at": START, "last_seen_at": START, **example}],
    )
    attained = {f"attained_{window}": 0.9 for window in ("1h", "6h", "3d")}
    burn = {f"burn_{window}": 10.0 for window in ("1h", "6h", "3d")}
    objective = {"queue": "emails", "objective_ms": 60_000, "target": 0.99, "met": 90, "missed": 10}
    put(lake, "gold.slo", [{"hour": START, **objective, **attained, **burn, "budget_left_3d": -9.0}])
    used = {"messages": 1200, "bytes": 0, "runs": 1300, "handler_s": 60.0, "reviews": 0}
    put(lake, "gold.usage", [{"day": START, "tenant": "", "queue": "emails", **used}])
    forecast = [{"hour": START + timedelta(hours=number), "queue": "emails", **EXPECTED} for number in range(24)]
    put(lake, "gold.forecast", forecast, part=0)
    return lake


def put(lake: Lake, table: str, rows: list[dict[str, Any]], part: int = DAY) -> None:
    rows = [{"source": "one", **row} for row in rows]
    lake.commit(lake.stage_arrow(table, {part: pa.Table.from_pylist(rows)}), instead=True)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    report(gold(tmp_path / "lake"), tmp_path / "report.html")
    return tmp_path / "report.html"


def show(browser: Browser, file: Path, **options: Any) -> Page:
    page = browser.new_page(viewport={"width": 1240, "height": 900}, **options)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on(
        "request",
        lambda request: problems.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
    )
    page.goto(file.as_uri())
    assert problems == [], "the page complains, or asks for something that is not in it"
    return page


def test_the_numbers_of_the_page_are_those_of_gold(tmp_path: Path) -> None:
    figures = report(gold(tmp_path / "lake"), tmp_path / "report.html", queues=["emails"])
    assert figures.queues == ["emails"]
    assert (figures.totals["arrived"], figures.totals["done"], figures.totals["dead"]) == (1200, 1080, 1)
    assert figures.totals["backlog"] == 119 % 7
    flow = {series.name: series.values for series in figures.flow}
    assert sum(value or 0 for value in flow["arrived"]) * figures.step_ms / 60_000 == 1200
    assert max(value or 0 for value in figures.waits[2].values) == 80.0 + 119


def test_every_section_and_chart_is_drawn(browser: Browser, written: Path) -> None:
    page = show(browser, written)
    titles = page.locator("h2").all_inner_texts()
    assert " ".join(title.split()[0] for title in titles) == SECTIONS
    assert page.locator("figure.chart svg").count() == 6
    assert page.locator("svg path.line").count() >= 4 + 2 + 6 + 3
    sizes = page.evaluate("[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().width)")
    assert min(sizes) > 300
    page.close()


def test_a_text_from_a_job_is_shown_and_not_obeyed(browser: Browser, written: Path) -> None:
    page = show(browser, written)
    assert page.title() == "Queue report"
    assert NASTY in page.locator("code").first.inner_text()
    page.close()


@pytest.mark.parametrize("mode", [pytest.param("light", marks=pytest.mark.whole), "dark"])
def test_the_page_follows_the_reader_s_mode_and_is_readable_in_it(mode: str, browser: Browser, written: Path) -> None:
    page = show(browser, written, color_scheme=mode)
    assert (light(page, "body", "backgroundColor") > 0.5) == (mode == "light")
    for selector in ("h1", ".tile strong", "td", "svg text.axis"):
        colour = "fill" if "svg" in selector else "color"
        ink, paper = light(page, selector, colour), light(page, ".tile", "backgroundColor")
        ratio = contrast(ink, paper)
        assert ratio >= 4.5, f"{selector} has a contrast of {ratio:.1f} in {mode}"
    page.close()


def test_the_button_turns_the_mode_and_the_pointer_reads_a_chart(browser: Browser, written: Path) -> None:
    page = show(browser, written, color_scheme="light")
    page.get_by_role("button", name="Dark").click()
    assert light(page, "body", "backgroundColor") < 0.5
    page.locator("figure svg").first.hover()
    reading = page.locator("figure output").first
    assert "15 Nov 2026" in reading.inner_text()
    assert "arrived  20" in reading.inner_text()
    page.close()


def test_the_page_fits_a_phone(browser: Browser, written: Path) -> None:
    page = show(browser, written)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_an_empty_table_is_a_sentence_and_not_a_crash(browser: Browser, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    used = {"messages": 1, "bytes": 0, "runs": 1, "handler_s": 0.0, "reviews": 0}
    put(lake, "gold.usage", [{"day": START, "tenant": "", "queue": "q", **used}])
    report(lake, tmp_path / "report.html")
    page = show(browser, tmp_path / "report.html")
    assert "Nothing has failed." in page.locator("body").inner_text()
    page.close()


@pytest.mark.scale
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["report", "forecast"])
def test_what_is_told_of_a_thousand_queues_stays_within_a_gigabyte_on_the_driver(what: str, tmp_path: Path) -> None:
    wide.fill(Lake(tmp_path / "lake"))
    done = Child.run(sys.executable, "-m", "tests.spark.lake.wide", what, tmp_path, timeout=300)
    assert done.code == 0, done.err
    told = json.loads(done.out.splitlines()[-1])
    assert (told["queues"], told["arrived"]) == (wide.QUEUES, wide.QUEUES * wide.MINUTES * wide.DAYS)
    assert told["bytes"] < 10**9
