"""The charts of the documentation, drawn from the results of benches in hack/benchmarks/results.

A result is what `hack/bench KIND --only SCENARIO --json hack/benchmarks/results/SCENARIO.json` writes. In one that was
not written by a bench, `conditions.provenance` says where its figures are from.
"""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from gpuruntime.processes.generate.files import Generated
from hack.benchmarks.bar_chart import Chart, Panel, Role, Row, as_svg

__all__ = ["CHARTS", "RESULTS", "Drawing", "Label", "draw", "update"]

_ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = Path(__file__).resolve().parent / "results"
CHARTS: Final = _ROOT / "docs" / "pictures" / "charts"


@frozen
class Label:
    """How a contender appears in a chart; without a note of its own, it has that of the result."""

    name: str
    role: Role = Role.PEER
    note: str | None = None


@frozen
class Drawing:
    """A chart: the figures of a scenario that it shows, by their names in the result, and its contenders.

    Its text may name conditions of the result, like `{objects:,}`. Ratios are those to the first contender of ours.
    """

    name: str
    title: str
    subject: str
    kind: str
    scenario: str
    figures: Mapping[str, str]
    contenders: Mapping[str, Label] = field(repr=False)


def _ours(note: str) -> Label:
    return Label("gpuruntime", Role.OURS, note)


_PEERS: Final = {
    "go": Label("Go controller-runtime"),
    **{name: Label(name) for name in ("kopf", "kr8s", "kubernetes", "lightkube")},
}
_CACHES: Final = {
    "ours bytes uvloop": _ours("whole objects, as bytes"),
    "ours projection uvloop": _ours("chosen fields only"),
    **_PEERS,
}
_LOOPS: Final = {
    "ours uvloop": _ours("with uvloop"),
    "ours asyncio": _ours("with asyncio"),
    # A copied result may not name the event loop.
    "ours": _ours(""),
    **_PEERS,
}
_DRAWINGS: Final = (
    Drawing(
        "sync",
        "Initial sync of a cache",
        "CPU of the process until its cache holds {objects:,} pods of a real API server",
        "library",
        "sync",
        {"CPU": "CPU"},
        _CACHES,
    ),
    Drawing(
        "memory",
        "Memory of a cache",
        "Resident memory that {objects:,} pods of a real API server add to the process",
        "library",
        "sync",
        {"memory added": "Memory added"},
        _CACHES,
    ),
    Drawing(
        "churn",
        "Cost of an update",
        "CPU of the controller per update of a ConfigMap, with a cache, a queue and one reconcile each",
        "library",
        "churn",
        {"CPU of an update": "CPU per update"},
        _LOOPS,
    ),
    Drawing(
        "converge",
        "300 units at once",
        "GPUUnits become Deployments and Services; the same work by a controller in Go",
        "operator",
        "converge-300",
        {"time until 300 units are ready": "Time until all are ready", "CPU of a unit": "CPU per unit"},
        _LOOPS,
    ),
    Drawing(
        "claims",
        "Claims of ready stock",
        "POST /gpu-units until 201, at 45 a second on 200 ready stock units; reconcilers paused",
        "api",
        "claims",
        {
            "claim p50, 45 a second, reconcilers paused": "Median",
            "claim p99, 45 a second, reconcilers paused": "99th percentile",
        },
        {
            "ours": _ours("three sequential writes"),
            "bare PATCH": Label("bare PATCH", note="one write to the API server"),
            "agent-sandbox": Label("agent-sandbox", Role.ELSEWHERE, "published, from another cluster"),
        },
    ),
)
_CONDITIONS: Final = {"CPU": "", "cores": "cores:", "load": "load", "Python": "Python", "commit": "commit", "day": ""}
_NOTE_CHARACTERS: Final = 40
_UNITS: Final = {"us": "µs"}


def draw(drawing: Drawing, result: Mapping[str, Any]) -> Chart:
    """The chart of a result; the bars of each panel are sorted, the best first."""
    conditions = result["conditions"]
    (scenario,) = (found for found in result["scenarios"] if found["name"] == drawing.scenario)
    figures = {figure["name"]: figure for figure in scenario["figures"]}
    labels = {name: _label(label, scenario["contenders"].get(name, "")) for name, label in drawing.contenders.items()}
    return Chart(
        drawing.title,
        drawing.subject.format_map(conditions),
        tuple(_panel(title, figures[name], labels) for name, title in drawing.figures.items()),
        _small_print(drawing, conditions),
    )


def _label(label: Label, note: str) -> Label:
    if label.note is not None:
        return label
    note = note.removeprefix("controller-runtime ")
    while len(note) > _NOTE_CHARACTERS and ", " in note:
        note = note.rpartition(", ")[0]
    return Label(label.name, label.role, note)


def _panel(title: str, figure: Mapping[str, Any], labels: Mapping[str, Label]) -> Panel:
    found = {name: figure["contenders"].get(name) for name in labels}
    # A contender without samples and without a failure does not measure this.
    medians = {
        name: entry["median"] for name, entry in found.items() if entry and (entry["samples"] or entry["failure"])
    }
    rows = [
        Row(labels[name].name, labels[name].note or "", labels[name].role, value) for name, value in medians.items()
    ]
    ours = next((row.value for row in rows if row.role is Role.OURS), None)
    rows.sort(key=lambda row: math.inf if row.value is None else row.value)
    return Panel(title, _UNITS.get(figure["unit"], figure["unit"]), tuple(rows), ours)


def _small_print(drawing: Drawing, conditions: Mapping[str, Any]) -> tuple[str, ...]:
    """How and where it was measured; a copied result may lack conditions, and says where it is from."""
    rounds = conditions.get("rounds")
    how = "One round" if rounds == 1 else "Medians" if rounds is None else f"Medians of {rounds} rounds"
    facts = [f"{text} {conditions[name]}".strip() for name, text in _CONDITIONS.items() if name in conditions]
    return (
        " · ".join([f"{how}, in turns on one machine", *facts]),
        *([conditions["provenance"]] if "provenance" in conditions else []),
        f"Measure it yourself: ./hack/bench {drawing.kind} --only {drawing.scenario}",
    )


def update(*, check: bool) -> int:
    """Write the charts, or only check them with `check`; 1 if one is stale."""
    texts = {CHARTS / f"{drawing.name}.svg": as_svg(draw(drawing, _result(drawing))) for drawing in _DRAWINGS}
    generated = Generated("", texts)
    lines = generated.stale() if check else generated.write()
    for line in lines:
        print(line, file=sys.stderr if check else sys.stdout)
    return 1 if check and lines else 0


def _result(drawing: Drawing) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{drawing.scenario}.json").read_text(encoding="utf-8"))
    return found
