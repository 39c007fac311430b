"""Horizontal bar charts as SVG text: values in, text out. They fit light and dark pages and load nothing."""

from collections.abc import Iterator
from enum import StrEnum
from html import escape
from typing import Final

from attrs import frozen

__all__ = ["Chart", "Panel", "Role", "Row", "as_svg"]

_WIDTH: Final = 840
_MARGIN: Final = 28
_BARS: Final = 262  # where bars begin
_LONGEST: Final = 390  # the room right of it is for the value
_PITCH, _BAR, _NOTE_PITCH = 42, 22, 15
_SHORTEST: Final = 3.0
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_STYLE: Final = """
    .ground { fill: #ffffff; stroke: #d1d9e0; }
    .title { fill: #1f2328; font-size: 21px; font-weight: 700; }
    .subject { fill: #59636e; font-size: 14px; }
    .panel { fill: #1f2328; font-size: 14px; font-weight: 600; }
    .better { fill: #59636e; font-size: 12.5px; }
    .axis { stroke: #c2c9d1; stroke-width: 1; }
    .name { fill: #1f2328; font-size: 14px; font-weight: 500; }
    .note { fill: #59636e; font-size: 11.5px; }
    .value { fill: #1f2328; font-size: 14px; font-weight: 600; }
    .ratio { fill: #59636e; font-size: 12.5px; font-weight: 400; }
    .ours { fill: #1f6feb; }
    .name.of-ours, .value.of-ours { fill: #0b57d0; font-weight: 700; }
    .peer { fill: #afb8c1; }
    .elsewhere { fill: #eef1f4; stroke: #8c959f; stroke-width: 1.2; stroke-dasharray: 4 3; }
    .small { fill: #6e7781; font-size: 11px; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; stroke: #3d444d; }
      .title, .panel, .name, .value { fill: #f0f6fc; }
      .subject, .better, .note, .ratio { fill: #9ba5b0; }
      .axis { stroke: #3d444d; }
      .ours { fill: #4493f8; }
      .name.of-ours, .value.of-ours { fill: #79b8ff; }
      .peer { fill: #59636e; }
      .elsewhere { fill: #1c2128; stroke: #768390; }
      .small { fill: #848d97; }
    }"""
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


class Role(StrEnum):
    """Whose value a bar shows; `ELSEWHERE`: published by its authors, not measured in this run."""

    OURS = "ours"
    PEER = "peer"
    ELSEWHERE = "elsewhere"


@frozen
class Row:
    """One bar: a value of a contender, or None if it failed."""

    name: str
    note: str
    role: Role
    value: float | None


@frozen
class Panel:
    """Bars that share a unit and a scale; the ratio of each is its value divided by `ours`."""

    title: str
    unit: str
    rows: tuple[Row, ...]
    ours: float | None


@frozen
class Chart:
    """Panels of one measurement; `small_print` says where and how it was made."""

    title: str
    subject: str
    panels: tuple[Panel, ...]
    small_print: tuple[str, ...]


def as_svg(chart: Chart) -> str:
    """The chart as a document of its own. Lower values are better; bars begin at zero."""
    body: list[str] = []
    y = 92.0
    for panel in chart.panels:
        body += _panel(panel, y)
        y += 30 + _PITCH * len(panel.rows) + 18
    height = y + _NOTE_PITCH * len(chart.small_print) + 10
    body += [
        _text("small", _MARGIN, y + 6 + _NOTE_PITCH * number, line) for number, line in enumerate(chart.small_print)
    ]
    size = f'viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" height="{height:g}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title description"',
        f'     font-family="{_FONT}">',
        f'  <title id="title">{escape(chart.title)}</title>',
        f'  <desc id="description">{escape(_description(chart))}</desc>',
        f"  <style>{_STYLE}\n  </style>",
        f'  <rect class="ground" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1:g}" rx="10"/>',
        _text("title", _MARGIN, 42, chart.title),
        _text("subject", _MARGIN, 65, chart.subject),
    ]
    return "\n".join([*head, *body, "</svg>", ""])


def _panel(panel: Panel, y: float) -> Iterator[str]:
    """A panel whose upper edge is at `y`."""
    first = y + 30
    yield _text("panel", _MARGIN, y + 12, f"{panel.title}, {panel.unit}")
    yield (
        f'  <text class="better" x="{_WIDTH - _MARGIN}" y="{y + 12:g}" text-anchor="end">'
        f"{escape('← lower is better')}</text>"
    )
    longest = max((row.value for row in panel.rows if row.value is not None), default=0.0)
    for number, row in enumerate(panel.rows):
        yield from _row(row, panel, longest, first + _PITCH * number)
    bottom = first + _PITCH * len(panel.rows)
    yield f'  <line class="axis" x1="{_BARS}" y1="{first - 4:g}" x2="{_BARS}" y2="{bottom:g}"/>'


def _row(row: Row, panel: Panel, longest: float, y: float) -> Iterator[str]:
    of = " of-ours" if row.role is Role.OURS else ""
    yield _text(f"name{of}", _MARGIN, y + (14 if row.note else 20), row.name)
    if row.note:
        yield _text("note", _MARGIN, y + 29, row.note)
    if row.value is None:
        yield _text("ratio", _BARS + 10, y + 21, "failed")
        return
    length = max(_SHORTEST, _LONGEST * row.value / longest) if longest else _SHORTEST
    yield f'  <path class="{row.role}" d="{_bar(length, y + 5)}"/>'
    ratio = _ratio(row, panel.ours)
    more = f'<tspan class="ratio" dx="9">{ratio}</tspan>' if ratio else ""
    yield (
        f'  <text class="value{of}" x="{_BARS + length + 9:g}" y="{y + 21:g}">'
        f"{_number(row.value)} {escape(panel.unit)}{more}</text>"
    )


def _bar(length: float, y: float) -> str:
    """The outline of a bar with round corners at its end, from the axis."""
    r = min(4.0, length / 2)
    return (
        f"M{_BARS} {y:g}h{length - r:.1f}a{r:g} {r:g} 0 0 1 {r:g} {r:g}v{_BAR - 2 * r:g}"
        f"a{r:g} {r:g} 0 0 1 -{r:g} {r:g}h-{length - r:.1f}z"
    )


def _ratio(row: Row, ours: float | None) -> str:
    if not ours or row.value is None or row.value == ours:
        return ""
    ratio = row.value / ours
    digits = 0 if ratio >= 10 else 1 if ratio >= 1 else 2
    return f"{ratio:.{digits}f}{_TIMES}{'' if row.role is Role.OURS else ' ours'}"


def _number(value: float) -> str:
    """The value with three significant digits, and never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _description(chart: Chart) -> str:
    sentences = [f"{chart.subject}."]
    for panel in chart.panels:
        values = ", ".join(
            f"{row.name}{f' ({row.note})' if row.note else ''} "
            + ("failed" if row.value is None else f"{_number(row.value)} {panel.unit}")
            for row in panel.rows
        )
        sentences.append(f"{panel.title}: {values}.")
    return " ".join([*sentences, "Lower is better."])


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'  <text class="{style}" x="{x:g}" y="{y:g}">{escape(text)}</text>'
