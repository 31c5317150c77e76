"""Charts as SVG, drawn here: lines and areas over time, with a grid, labels and a reading for every point under the pointer."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from relevo.pipeline.report.figures import Series

NARROW, WIDE, HEIGHT = 540, 1120, 220
"""Drawn as wide as they are shown on a desk, so that letters are as large as the rest of the page's."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 26
_DAY_MS = 86_400_000


def chart(
    title: str,
    times: Sequence[int],
    series: Sequence[Series],
    *,
    kinds: Sequence[str],
    unit: str = "",
    area: bool = False,
    logarithmic: bool = False,
    limit: tuple[float, str] | None = None,
    width: int = NARROW,
) -> str:
    """One chart. `kinds` are the style classes of the series, in order; `limit` is a line across, with its words."""
    values = [value for line in series for value in line.values if value is not None]
    if not times or not values:
        return f'<figure class="chart empty"><figcaption>{escape(title)}</figcaption><p>No data yet.</p></figure>'
    high = max([limit[0] if limit else 0.0, *values])
    axis = _Logarithmic(values, high) if logarithmic and high > 0 else _Linear(high)
    x = _across(times, width)
    drawn = [_grid(axis, unit, width), _clock(times, x, width)]
    if limit is not None:
        at = axis.y(limit[0])
        drawn.append(f'<line class="limit" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        drawn.append(f'<text class="limit" x="{_LEFT + 6}" y="{at - 5:.1f}">{escape(limit[1])}</text>')
    for line, kind in zip(series, kinds, strict=False):
        drawn.append(_line(line, kind, x, axis, filled=area and line is series[0]))
    legend = "".join(
        f'<span class="{kind}"><i></i>{escape(line.name or "(no name)")}</span>'
        for line, kind in zip(series, kinds, strict=False)
    )
    readings = {
        "t": list(times),
        "s": [[line.name or "(no name)", *_short(line.values)] for line in series],
        "u": unit,
        "w": width,
    }
    return (
        f'<figure class="chart" data-readings="{escape(json.dumps(readings, separators=(",", ":")))}">'
        f"<figcaption>{escape(title)}<span class='legend'>{legend}</span></figcaption>"
        f'<svg viewBox="0 0 {width} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(drawn)}'
        f'<line class="cursor" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}" x1="-9" x2="-9"/></svg><output></output></figure>'
    )


def bar(share: float, kind: str = "k1") -> str:
    """A share as a bar for a table cell."""
    width = 0 if math.isnan(share) else max(0.0, min(1.0, share)) * 100
    return f'<span class="bar {kind}"><b style="width:{width:.1f}%"></b></span>'


class _Linear:
    def __init__(self, high: float) -> None:
        self.step = nice(high / 4) if high > 0 else 1.0
        self.high = self.step * max(1, math.ceil(high / self.step - 1e-9))

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self.high

    def ticks(self) -> list[float]:
        return [self.step * number for number in range(round(self.high / self.step) + 1)]


class _Logarithmic:
    """For times, which span from under a millisecond to hours."""

    def __init__(self, values: Sequence[float], high: float) -> None:
        low = min((value for value in values if value > 0), default=1.0)
        self.low = math.floor(math.log10(max(0.1, low)))
        self.top = max(self.low + 1, math.ceil(math.log10(max(0.2, high))))

    def y(self, value: float) -> float:
        place = (math.log10(max(value, 10**self.low)) - self.low) / (self.top - self.low)
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * place

    def ticks(self) -> list[float]:
        steps = (1, 2, 5) if self.top - self.low <= 2 else (1,)
        ticks = [step * 10.0**power for power in range(self.low, self.top) for step in steps]
        return [*ticks, 10.0**self.top]


def nice(value: float) -> float:
    """The next round number.

    >>> nice(23), nice(0.7), nice(110)
    (25.0, 1.0, 200.0)
    """
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 2, 2.5, 5, 10) if step * size >= value - 1e-12)


def said(value: float, unit: str = "") -> str:
    """A number as an axis says it.

    >>> said(1_500_000), said(0.25), said(90_000, "ms"), said(12.5, "ms"), said(0)
    ('1.5M', '0.25', '1.5 min', '12.5 ms', '0')
    """
    if unit == "ms":
        for size, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
            if value >= size:
                return f"{value / size:.3g} {name}"
        return f"{value:.3g} ms"
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{name}"
    return f"{value:.3g}{unit and ' ' + unit}"


def _across(times: Sequence[int], width: int) -> list[float]:
    span = max(1, times[-1] - times[0])
    return [_LEFT + (width - _LEFT - _RIGHT) * (at - times[0]) / span for at in times]


def _grid(axis: _Linear | _Logarithmic, unit: str, width: int) -> str:
    parts: list[str] = []
    for tick in axis.ticks():
        y = axis.y(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="axis" x="{_LEFT - 8}" y="{y + 3.5:.1f}" text-anchor="end">{said(tick, unit)}</text>'
        )
    return "".join(parts)


def _clock(times: Sequence[int], x: Sequence[float], width: int) -> str:
    """Five or six labels: hours within two days, dates beyond; the date stands where a day begins."""
    every = max(1, math.ceil(len(times) / (width / 95)))
    long = times[-1] - times[0] > 2 * _DAY_MS
    parts: list[str] = []
    day = ""
    for place in range(0, len(times), every):
        at = datetime.fromtimestamp(times[place] / 1000, UTC)
        text = f"{at:%d %b}" if long or f"{at:%d}" != day else f"{at:%H:%M}"
        if not long and f"{at:%d}" != day:
            text = f"{at:%d %b %H:%M}"
        day = f"{at:%d}"
        anchor = "start" if place == 0 else "middle"
        parts.append(f'<text class="axis" x="{x[place]:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{text}</text>')
    return "".join(parts)


def _line(line: Series, kind: str, x: Sequence[float], axis: _Linear | _Logarithmic, *, filled: bool) -> str:
    """A path, broken where there is nothing to say; a point that stands alone is a dot."""
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in zip(x, line.values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((at, axis.y(value)))
    parts: list[str] = []
    floor = HEIGHT - _BOTTOM
    for run in filter(None, runs):
        path = "L".join(f"{at:.1f} {y:.1f}" for at, y in run)
        if len(run) == 1:
            parts.append(f'<circle class="{kind}" cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="2"/>')
            continue
        if filled:
            parts.append(f'<path class="area {kind}" d="M{run[0][0]:.1f} {floor}L{path}L{run[-1][0]:.1f} {floor}Z"/>')
        parts.append(f'<path class="line {kind}" d="M{path}"/>')
    return "".join(parts)


def _short(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.4g}") for value in values]
