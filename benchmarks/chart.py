"""Two drawings of a run, as SVG written by hand: bars for the rivals, lines for growth. Readable on light and dark pages."""

from __future__ import annotations

import math
from html import escape

from benchmarks.case import BY_NAME
from benchmarks.points import Points
from benchmarks.tally import Tally

STYLE = """<style>
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; font-size: 14px; } .small { font-size: 11px; fill: #57606a; }
  .bar { fill: #8c959f; } .ours { fill: #0969da; } .ceiling { fill: none; stroke: #8c959f; stroke-dasharray: 3 2; }
  .axis { stroke: #d0d7de; } .line { fill: none; stroke-width: 2; } .dot { stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #9198a1; } .bar { fill: #656c76; } .ours { fill: #4493f8; }
    .ceiling { stroke: #9198a1; } .axis { stroke: #3d444d; }
  }
</style>"""
COLOURS = ("#0969da", "#bf3989", "#1a7f37", "#bc4c00", "#8250df", "#9a6700", "#cf222e", "#1b7c83", "#57606a", "#0550ae")

PANELS = ("drain", "drain_events", "add_concurrent", "add_bulk_500", "cpu", "latency_p50")
CEILINGS = {"drain": "raw_drain", "add_concurrent": "raw_add_once", "add_bulk_500": "raw_add_once"}
LABEL, BAR, ROW, WIDTH = 150, 420, 20, 700


def bars(tally: Tally) -> str:
    """A panel for each main case, a bar for each contestant, longest value first where more is better."""
    parts: list[str] = []
    y = 10
    for case in PANELS:
        rows = _rows(tally, case)
        if not rows:
            continue
        known = BY_NAME[case]
        better = "more" if known.more_is_better else "less"
        parts.append(f'<text class="title" x="10" y="{y + 14}">{escape(known.title)}</text>')
        parts.append(
            f'<text class="small" x="{WIDTH - 10}" y="{y + 14}" text-anchor="end">{known.unit}, {better} is better</text>'
        )
        y += 24
        longest = max(value for _, value in rows)
        for who, value in rows:
            kind = "ours" if who == "relevo" else "ceiling" if who == "the server itself" else "bar"
            length = max(1.0, value / longest * BAR)
            parts.append(f'<text x="{LABEL}" y="{y + 13}" text-anchor="end">{escape(who)}</text>')
            parts.append(
                f'<rect class="{kind}" x="{LABEL + 8}" y="{y + 2}" width="{length:.1f}" height="{ROW - 6}" rx="2"/>'
            )
            parts.append(f'<text class="small" x="{LABEL + 14 + length:.1f}" y="{y + 13}">{known.shown(value)}</text>')
            y += ROW
        y += 14
    return _svg(WIDTH, y, parts)


def _rows(tally: Tally, case: str) -> list[tuple[str, float]]:
    found = [(who, value) for who in tally.contestants if (value := tally.median(who, case)) is not None]
    raw = tally.median("the server itself", CEILINGS.get(case, ""))
    if found and raw is not None:
        found.append(("the server itself", raw))
    return sorted(found, key=lambda row: row[1], reverse=BY_NAME[case].more_is_better)


def growth(points: Points) -> str:
    """Cost against the smallest size, a line for each thing that grows; a flat line is what we want. Not of payloads: their
    bytes cost what bytes cost, and a line that rises sixtyfold would press all others flat."""
    left, right, top, height = 60, 480, 30, 260
    lines = {key: each for key, each in points.lines.items() if len(each) > 1 and key[0] != "payload"}
    costs = {key: Points.dearer(each) for key, each in lines.items()}
    highest = max(2.0, *(max(values) for values in costs.values())) if costs else 2.0
    sizes = [point.size for each in lines.values() for point in each] or [1, 10]
    low, high = math.log10(min(sizes)), max(math.log10(max(sizes)), math.log10(min(sizes)) + 1)

    def x(size: int) -> float:
        return left + (math.log10(size) - low) / (high - low) * (right - left)

    def y(cost: float) -> float:
        return top + height - cost / highest * height

    parts = ['<text class="title" x="10" y="18">cost against the smallest size (1 is flat)</text>']
    for tick in _ticks(highest):
        parts.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text class="small" x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        place = f'x="{x(10**power):.1f}" y="{top + height + 18}"'
        parts.append(f'<text class="small" {place} text-anchor="middle">{10**power:,}</text>')
    for number, ((line, what), values) in enumerate(costs.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(
            f"{x(point.size):.1f},{y(cost):.1f}" for point, cost in zip(lines[line, what], values, strict=True)
        )
        parts.append(f'<polyline class="line" stroke="{colour}" points="{path}"/>')
        at = top + 10 + number * 18
        parts.append(f'<rect x="{right + 20}" y="{at - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{right + 36}" y="{at}">{escape(f"{line}: {what}")}</text>')
    return _svg(820, max(top + height + 30, top + 20 + len(costs) * 18), parts)


def _ticks(highest: float) -> list[float]:
    step = 0.5 if highest <= 4 else 10 ** math.floor(math.log10(highest))
    return [step * n for n in range(int(highest / step) + 1)]


def _svg(width: int, height: int, parts: list[str]) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join([head, STYLE, *parts, "</svg>"]) + "\n"
