"""The charts of benchmarks: from the JSON of a bench to SVG."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from hack.benchmarks import charts
from hack.benchmarks.bar_chart import Chart, Panel, Role, Row, as_svg
from hack.benchmarks.charts import Drawing, Label, draw
from hack.benchmarks.contenders import Contender
from hack.benchmarks.figures import Figure
from hack.benchmarks.measuring import conditions
from hack.benchmarks.report import Report, ScenarioReport, as_json

DRAWING = Drawing(
    "race",
    "A race",
    "{objects:,} objects",
    "library",
    "race",
    {"time": "Time"},
    {
        "ours fast": Label("ours", Role.OURS, "fast"),
        "ours small": Label("ours", Role.OURS, "small"),
        "go": Label("Go"),
        "kopf": Label("kopf"),
        "absent": Label("absent"),
    },
)


def result(samples: dict[str, tuple[float, ...]], failures: dict[str, str]) -> dict[str, Any]:
    """What a bench writes for these samples."""
    contenders = (Contender("go", (), "controller-runtime v1 cache, of a long description, and more of it"),)
    figure = Figure("time", "us", samples, failures)
    report = Report(
        conditions(quick=False, repeat=3, objects=10_000),
        (ScenarioReport("race", "A race", contenders, (figure,)),),
    )
    return as_json(report)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own text


def of_class(svg: str, name: str) -> list[ET.Element]:
    return [element for element in parsed(svg).iter() if name in element.get("class", "").split()]


def test_a_chart_has_the_medians_of_a_result_with_the_best_first() -> None:
    samples = {"ours fast": (3.0, 1.0, 2.0), "ours small": (1.0,), "go": (4.0,), "kopf": (8.0,)}

    chart = draw(DRAWING, result(samples, {"kopf": "it crashed"}))

    (panel,) = chart.panels
    assert [(row.name, row.note, row.role, row.value) for row in panel.rows] == [
        ("ours", "small", Role.OURS, 1.0),
        ("ours", "fast", Role.OURS, 2.0),
        ("Go", "v1 cache, of a long description", Role.PEER, 4.0),
        ("kopf", "", Role.PEER, None),
    ]
    assert (chart.subject, panel.unit, panel.ours) == ("10,000 objects", "µs", 2.0)


def test_the_small_print_has_the_conditions_and_the_command() -> None:
    measured = result({"go": (1.0,)}, {})

    printed = " ".join(draw(DRAWING, measured).small_print)

    assert all(str(measured["conditions"][name]) in printed for name in ("CPU", "cores", "commit", "day", "rounds"))
    assert "./hack/bench library --only race" in printed


@pytest.fixture
def svg() -> str:
    rows = (
        Row("ours", "", Role.OURS, 10.0),
        Row("peer <1>", "note & more", Role.PEER, 400.0),
        Row("quick", "", Role.ELSEWHERE, 5.0),
        Row("broken", "", Role.PEER, None),
    )
    return as_svg(Chart("A & B", "what", (Panel("Time", "ms", rows, 10.0),), ("small print",)))


def test_bars_are_as_long_as_their_values_and_one_that_failed_has_none(svg: str) -> None:
    paths = [element for role in Role for element in of_class(svg, role)]

    lengths = []
    for path in paths:
        straight, round_corner = re.findall(r"h([0-9.]+)a([0-9.]+)", path.get("d", ""))[0]
        lengths.append(float(straight) + float(round_corner))

    ours, peer, elsewhere = lengths
    assert ours / peer == pytest.approx(10 / 400, abs=0.001)
    assert elsewhere / peer == pytest.approx(5 / 400, abs=0.001)


def test_each_bar_has_its_value_and_its_ratio_to_ours(svg: str) -> None:
    values = ["".join(element.itertext()) for element in of_class(svg, "value")]

    assert values == ["10 ms", "400 ms40× ours", "5 ms0.50× ours"]  # noqa: RUF001 - the sign of the chart


def test_a_chart_is_described_for_those_who_do_not_see_it(svg: str) -> None:
    root = parsed(svg)

    labels = {element.get("id"): element.text or "" for element in root if element.get("id")}

    assert root.get("role") == "img"
    assert (root.get("aria-labelledby") or "").split() == list(labels)
    assert labels["title"] == "A & B"
    assert "peer <1> (note & more) 400 ms, quick 5 ms, broken failed" in labels["description"]


def test_every_result_of_the_repository_has_its_chart() -> None:
    names = {path.stem for path in charts.CHARTS.iterdir()}

    assert names == {"sync", "memory", "churn", "converge", "claims"}
    assert charts.update(check=True) == 0, "run ./hack/bench --plot"
