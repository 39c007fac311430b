"""The report of a bench: a table for people, JSON for programs."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from hack.benchmarks.contenders import Contender
from hack.benchmarks.figures import Figure

__all__ = ["Report", "ScenarioReport", "as_json", "as_table"]

_REFERENCE = "go"
_VERDICTS = {True: "met", False: "not met", None: "not known"}
_HEADER = ("", "median", "min..max", "x go", "bar", "")


@frozen
class ScenarioReport:
    """The figures and contenders of one scenario."""

    name: str
    title: str
    contenders: tuple[Contender, ...]
    figures: tuple[Figure, ...]


@frozen
class Report:
    """The results of one run; `conditions` describes the machine and the settings."""

    conditions: dict[str, Any]
    scenarios: tuple[ScenarioReport, ...]

    @property
    def all_met(self) -> bool:
        """Whether every bar is known to be met."""
        figures = [figure for scenario in self.scenarios for figure in scenario.figures]
        return all(figure.met(bar) for figure in figures for bar in figure.bars)


def as_table(report: Report) -> str:
    lines = [", ".join(f"{name} {value}" for name, value in report.conditions.items())]
    for scenario in report.scenarios:
        lines += ["", f"== {scenario.name}: {scenario.title}"]
        lines += [f"   {contender.name}: {contender.note}" for contender in scenario.contenders if contender.note]
        for figure in scenario.figures:
            lines += ["", *_figure(figure, [contender.name for contender in scenario.contenders])]
    return "\n".join(lines)


def as_json(report: Report) -> dict[str, Any]:
    return {
        "conditions": report.conditions,
        "all_met": report.all_met,
        "scenarios": [
            {
                "name": scenario.name,
                "contenders": {contender.name: contender.note for contender in scenario.contenders},
                "figures": [_figure_json(figure) for figure in scenario.figures],
            }
            for scenario in report.scenarios
        ],
    }


def _figure(figure: Figure, contenders: Sequence[str]) -> list[str]:
    rows = [(f"{figure.name}, {figure.unit}", *_HEADER[1:])]
    notes: dict[int, str] = {}
    for name in contenders:
        summary, ratio = figure.summary(name), figure.ratio(name, _REFERENCE)
        bars = [(bar.text(figure.unit), _VERDICTS[figure.met(bar)]) for bar in figure.bars if bar.contender == name]
        if summary is None and name not in figure.failures and not bars:
            continue  # this contender cannot measure it
        first, *others = bars or [("", "")]
        if summary is None:
            notes[len(rows)] = f"failed: {figure.failures[name]}" if name in figure.failures else ""
            rows.append((name, "-", "", "", *first))
        else:
            spread = f"{_number(summary.least)}..{_number(summary.most)}"
            rows.append((name, _number(summary.median), spread, "" if ratio is None else f"{ratio:.2f}", *first))
        rows += [("", "", "", "", *bar) for bar in others]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = []
    for number, row in enumerate(rows):
        name, *numbers = row[:4]
        cells = [name.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:4], strict=True)]
        cells += [cell.ljust(width) for cell, width in zip(row[4:], widths[4:], strict=True)]
        lines.append("  ".join([*cells, notes.get(number, "")]).rstrip())
    return lines


def _number(value: float) -> str:
    """The value with three significant digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _figure_json(figure: Figure) -> dict[str, Any]:
    contenders: dict[str, Any] = {}
    for name in [*figure.samples, *(name for name in figure.failures if name not in figure.samples)]:
        summary = figure.summary(name)
        contenders[name] = {
            "samples": list(figure.samples.get(name, ())),
            "median": summary and summary.median,
            "min": summary and summary.least,
            "max": summary and summary.most,
            "times_go": figure.ratio(name, _REFERENCE),
            "failure": figure.failures.get(name),
        }
    bars = [
        {
            "contender": bar.contender,
            "bar": bar.text(figure.unit),
            "limit": bar.limit,
            "times": bar.times,
            "met": figure.met(bar),
        }
        for bar in figure.bars
    ]
    return {"name": figure.name, "unit": figure.unit, "contenders": contenders, "bars": bars}
