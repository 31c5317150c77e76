"""The page: figures as one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

from relevo.pipeline.report.charts import WIDE, bar, chart, said
from relevo.pipeline.report.figures import Figures, Row, Series, share

_LINES = ("k1", "k5", "k6", "k3", "k2", "k4")
_NONE = "\N{EN DASH}"
_WAKE, _TICKET = 14.4, 1.0
"""Burns worth waking someone for (an hour of it is two percent of a month's budget), and worth a ticket."""


def page(figures: Figures, *, title: str = "Queue report", written: datetime | None = None) -> str:
    """The whole document."""
    folder = files("relevo.pipeline.report")
    style, script = (folder.joinpath(name).read_text() for name in ("style.css", "readings.js"))
    at = written or datetime.now(UTC)
    sections = (_tiles, _throughput, _latency, _failures, _slo, _usage, _forecast, _anomalies)
    body = "".join(section(figures) for section in sections)
    tables = ", ".join(f"{name} v{version}" for name, version in figures.versions.items() if version)
    what = ", ".join(figures.queues) if len(figures.queues) <= 6 else f"{len(figures.queues)} queues"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data:\">"
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{style}</style></head><body><main>'
        f"<header><div><h1>{escape(title)}</h1><p>{escape(what or 'no queues')}"
        f"{_span(figures)}</p></div><button type='button'>Dark</button></header>{body}"
        f"<footer>Written {at:%Y-%m-%d %H:%M} UTC by relevo from {escape(tables or 'an empty lake')}. All times are UTC. "
        "Percentiles come from mergeable sketches; a chart shows the worst of what it puts together.</footer>"
        f"</main><script>{script}</script></body></html>"
    )


def _span(figures: Figures) -> str:
    if not figures.times:
        return ""
    start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (figures.start_ms, figures.end_ms))
    return f" &middot; {start:%d %b %Y %H:%M} to {end:%d %b %Y %H:%M}"


def _tiles(figures: Figures) -> str:
    total = figures.totals
    ended = total["done"] + total["failed"]
    success = share(total["done"], ended)
    minutes = max(1.0, (figures.end_ms - figures.start_ms) / 60_000)
    worst = max((row["burn_6h"] or 0.0 for row in figures.slo), default=0.0)
    runs = f"{said(total['failed'])} failed, {said(total['retried'])} tried again"
    lost = f"{said(total['lost'])} runs lost"
    tiles = [
        ("Arrived", said(total["arrived"]), f"{said(total['arrived'] / minutes)} a minute", ""),
        ("Done", said(total["done"]), f"{said(total['done'] / minutes)} a minute", ""),
        ("Success of runs", _percent(success), runs, "good" if success >= 0.99 else ""),
        ("Dead letters", said(total["dead"]), lost, "bad" if total["dead"] else "good"),
        ("Backlog", said(total["backlog"]), "at the end", ""),
        ("Handlers busy", said(total["busy_ms"], "ms"), f"{said(total['busy_ms'] / 60_000 / minutes)} at a time", ""),
        ("Burn over 6 h", said(worst), "the worst queue", "bad" if worst > _TICKET else "good"),
    ]
    inner = "".join(
        f'<div class="tile {kind}"><span>{name}</span><strong>{value}</strong><small>{note}</small></div>'
        for name, value, note, kind in tiles
    )
    return f'<section class="tiles">{inner}</section>'


def _throughput(figures: Figures) -> str:
    flow = chart(
        f"Jobs a minute (each point {said(figures.step_ms, 'ms')})",
        figures.times,
        figures.flow,
        kinds=("k1", "k2", "k3", "k4"),
        area=True,
    )
    backlog = chart("Backlog by queue", figures.times, figures.backlog, kinds=_colours(figures, figures.backlog))
    return f"<h2>Throughput</h2><div class='pair'>{flow}{backlog}</div>"


def _colours(figures: Figures, lines: Sequence[Series]) -> list[str]:
    """A queue has one colour on the whole page."""
    place = {queue: number for number, queue in enumerate(figures.queues)}
    return [_LINES[place.get(line.name, 0) % len(_LINES)] for line in lines]


def _latency(figures: Figures) -> str:
    kinds = ("k2", "k3", "k4")
    waits = chart("Wait before a run", figures.times, figures.waits, kinds=kinds, unit="ms", logarithmic=True)
    runs = chart("Time of a run", figures.times, figures.runs, kinds=kinds, unit="ms", logarithmic=True)
    names = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")
    rows = [
        [_job(row), row["measure"], _n(said(row["count"])), *(_n(said(row[name], "ms")) for name in names)]
        for row in figures.day_latency
    ]
    day = f" of {datetime.fromtimestamp(figures.day_latency[0]['ms'] / 1000, UTC):%d %B}" if rows else ""
    headings = ["job", "", _n("count"), *(_n(name) for name in ("p50", "p90", "p95", "p99", "p99.9", "most"))]
    table = _table(headings, rows, "No job has ended yet.")
    return (
        f"<h2>Latency</h2><div class='pair'>{waits}{runs}</div>"
        f"<h2>Percentiles{day}</h2>"
        f"<p>Wait, run and total (arrival to end) of the whole day, added up from its minutes.</p>{table}"
    )


def _failures(figures: Figures) -> str:
    rows = [
        [
            _reason(row),
            escape(row["queue"]),
            f'<span class="tag {"bad" if row["kind"] == "dead" else "warn"}">{row["kind"]}</span>',
            _n(said(row["count"])),
            f"{bar(row['share'], 'k4')}{_percent(row['share'])}",
            _when(row["first_seen_at"]),
            _when(row["last_seen_at"]),
        ]
        for row in figures.failures
    ]
    headings = ["reason, and an example", "queue", "", _n("count"), "share of the queue's", "first", "last"]
    words = "Reasons that differ only in numbers, ids, names and addresses are one line."
    return f"<h2>Failures</h2><p>{words}</p>{_table(headings, rows, 'Nothing has failed.')}"


def _reason(row: Row) -> str:
    example = row["example"] or ""
    shown = "" if example == row["reason"] else f"<small>{escape(_cut(example))}</small>"
    return f"<code>{escape(row['reason'])}</code>{shown}"


def _slo(figures: Figures) -> str:
    def burn(value: float | None) -> str:
        if value is None:
            return _n(_NONE)
        kind = "bad" if value >= _WAKE else "warn" if value > _TICKET else "good"
        return _n(f'<span class="tag {kind}">{said(value)}</span>')

    rows = [
        [
            escape(row["queue"]),
            f"{_percent(row['target'])} within {said(row['objective_ms'], 'ms')}",
            _n(_percent(row["attained_1h"])),
            _n(_percent(row["attained_3d"])),
            burn(row["burn_1h"]),
            burn(row["burn_6h"]),
            burn(row["burn_3d"]),
            _budget(row["budget_left_3d"]),
        ]
        for row in figures.slo
    ]
    headings = [
        "queue",
        "objective",
        _n("met, 1 h"),
        _n("met, 3 d"),
        _n("burn 1 h"),
        _n("burn 6 h"),
        _n("burn 3 d"),
        "budget left",
    ]
    lines = chart(
        "Burn over the last hour",
        figures.burn_times,
        figures.burn,
        kinds=_colours(figures, figures.burn),
        limit=(1.0, "budget"),
        width=WIDE,
    )
    words = "A burn of 1 uses up the error budget exactly in its time; above 14 someone should be woken."
    table = _table(headings, rows, "No job has ended yet.")
    return f"<h2>Objectives</h2><p>{words}</p><div class='stack'>{lines}{table}</div>"


def _budget(left: float | None) -> str:
    if left is not None and left < 0:
        return f"{bar(0)}<span class='tag bad'>spent</span>"
    return f"{bar(left or 0, 'k2')}{_percent(left)}"


def _usage(figures: Figures) -> str:
    most = max((row["messages"] for row in figures.usage), default=0)
    rows = [
        [
            escape(row["tenant"] or _NONE),
            escape(row["queue"]),
            f"{bar(share(row['messages'], most))}{said(row['messages'])}",
            _n(said(row["runs"])),
            _n(said(row["handler_s"] * 1000, "ms")),
            _n(said(row["bytes"]) if row["bytes"] else _NONE),
            _n(said(row["reviews"]) if row["reviews"] else _NONE),
        ]
        for row in figures.usage
    ]
    headings = ["tenant", "queue", "messages", _n("runs"), _n("handler time"), _n("bytes"), _n("reviews")]
    return f"<h2>Usage</h2>{_table(headings, rows, 'Nothing was used.')}"


def _forecast(figures: Figures) -> str:
    lines = chart(
        "Arrivals an hour, and backlog, expected",
        figures.forecast_times,
        figures.forecast,
        kinds=("k1", "k6", "k3"),
        width=WIDE,
    )
    rows = [
        [
            escape(row["queue"]),
            _when(row["hour"]),
            _n(f"{said(row['arrivals'])} to {said(row['arrivals_high'])}"),
            _n(said(row["mean_run_s"] * 1000, "ms")),
            _n(f"<b>{row['workers']}</b>"),
            _n(said(row["wait_target_s"] * 1000, "ms")),
        ]
        for row in figures.outlook
    ]
    headings = [
        "queue",
        "busiest hour",
        _n("arrivals"),
        _n("mean run"),
        _n("at a time needed"),
        _n("for a mean wait of"),
    ]
    words = "From the same hour of the days before, and the trend of the last two."
    table = _table(headings, rows, "Not enough history.")
    return f"<h2>The next day</h2><p>{words}</p><div class='stack'>{lines}{table}</div>"


def _anomalies(figures: Figures) -> str:
    if not figures.anomalies:
        return ""
    rows = [
        [
            _when(row["minute"]),
            escape(row["queue"]),
            row["metric"],
            _n(said(row["value"])),
            _n(f"{said(row['low'])} to {said(row['high'])}"),
            row["side"],
        ]
        for row in figures.anomalies
    ]
    headings = ["minute", "queue", "what", _n("value"), _n("usual"), ""]
    return f"<h2>Unusual minutes</h2>{_table(headings, rows, '')}"


# --- cells ---------------------------------------------------------------------------------------------------------------


class _Number(str):
    """A cell to the right."""

    __slots__ = ()


_n = _Number


class _Time(str):
    """A cell with a time."""

    __slots__ = ()


_MOST_ROWS = 100
"""More than that nobody reads on a page."""


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> str:
    if not rows:
        return f'<div class="table"><p style="padding:14px 16px">{empty}</p></div>'
    head = "".join(f"<th{_class(cell)}>{cell}</th>" for cell in headings)
    shown = rows[:_MOST_ROWS]
    body = "".join("<tr>" + "".join(f"<td{_class(cell)}>{cell}</td>" for cell in row) + "</tr>" for row in shown)
    if len(rows) > len(shown):
        body += f'<tr><td colspan="{len(headings)}">and {len(rows) - len(shown)} more, which gold has</td></tr>'
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _class(cell: str) -> str:
    return ' class="n"' if isinstance(cell, _Number) else ' class="when"' if isinstance(cell, _Time) else ""


def _job(row: Row) -> str:
    name = f" <small style='display:inline'>{escape(row['name'])}</small>" if row["name"] else ""
    return f"{escape(row['queue'])}{name}"


def _when(at: Any) -> str:
    return _Time(f"{at:%d %b %H:%M}")


def _percent(value: float | None) -> str:
    if value is None or math.isnan(value):
        return _NONE
    shown = f"{value * 100:.2f}".rstrip("0").rstrip(".")
    return f"{'>' if shown == '100' and value < 1 else ''}{shown} %"


def _cut(text: str) -> str:
    return text if len(text) <= 160 else text[:159] + "…"
