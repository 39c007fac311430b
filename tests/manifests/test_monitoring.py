"""Alerts and dashboards use existing metrics, and link to existing runbooks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import promql_parser
import pytest
import yaml
from attrs import frozen

from gpuruntime.control.histogram import REQUEST_BUCKETS
from gpuruntime.control.queueing.counters import DURATION_BUCKETS
from gpuruntime.reconcilers.gpuunit.stage_metrics import STAGE_BUCKETS
from tests.manifests.rendered import MANIFESTS

ROOT: Final = Path(__file__).resolve().parents[2]
ALERTS: Final = [
    rule
    for group in yaml.safe_load((MANIFESTS / "monitoring" / "alerts.yaml").read_text())["spec"]["groups"]
    for rule in group["rules"]
]
PANELS: Final = json.loads((MANIFESTS / "monitoring" / "dashboard.json").read_text())["panels"]
RUNBOOKS: Final = (ROOT / "docs" / "operating.md").read_text()
METRIC: Final = re.compile(r"\| `(?P<name>\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*)\|")
# The labels that Prometheus and its operator add to every series.
SCRAPED: Final = frozenset({"job", "pod", "namespace", "instance"})


@frozen
class Metric:
    """A metric of docs/metrics.md, which another test compares with a scrape."""

    name: str
    type: str
    labels: frozenset[str]

    @property
    def series(self) -> dict[str, frozenset[str]]:
        """The labels of each of its series, by name."""
        labels = self.labels | SCRAPED
        if self.type == "histogram":
            return {
                f"{self.name}_bucket": labels | {"le"},
                f"{self.name}_count": labels,
                f"{self.name}_sum": labels,
            }
        return {self.name: labels}


def known_series() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {"up": SCRAPED}
    for row in METRIC.finditer((ROOT / "docs" / "metrics.md").read_text()):
        found |= Metric(row["name"], row["type"], frozenset(re.findall(r"`(\w+)`", row["labels"]))).series
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for alert in ALERTS:
        yield alert["alert"], alert["expr"]
    for panel in PANELS:
        for target in panel.get("targets", ()):
            # Grafana replaces it by a duration that fits the width of the panel.
            yield f"{panel['title']} {target['refId']}", target["expr"].replace("$__rate_interval", "5m")


EXPRESSIONS: Final = dict(expressions())
KNOWN: Final = known_series()
METRICS: Final = (ROOT / "docs" / "metrics.md").read_text()
# The config determines the name of the lease.
LEASE: Final = "gpuruntime-controller-manager"
BUCKETS: Final = {
    "workqueue_queue_duration_seconds_bucket": DURATION_BUCKETS,
    "gpuruntime_claim_seconds_bucket": REQUEST_BUCKETS,
    "gpuruntime_unit_stage_seconds_bucket": STAGE_BUCKETS,
}


def nodes(text: str) -> list[promql_parser.Expr]:
    found: list[promql_parser.Expr] = []
    promql_parser.walk(promql_parser.parse(text), found.append)
    return found


def selectors(node: promql_parser.Expr) -> list[promql_parser.VectorSelector]:
    """All selectors in an expression."""
    return [inner for inner in nodes(node.prettify()) if isinstance(inner, promql_parser.VectorSelector)]


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_every_expression_parses_and_uses_existing_series_and_labels(where: str) -> None:
    for node in nodes(EXPRESSIONS[where]):
        if isinstance(node, promql_parser.VectorSelector):
            assert node.name in KNOWN
            assert {matcher.name for matcher in node.matchers.matchers} <= KNOWN[node.name]
            assert all(is_value(matcher) for matcher in node.matchers.matchers)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            for selector in selectors(node.expr):
                assert set(node.modifier.labels) <= KNOWN[selector.name or ""]


def is_value(matcher: promql_parser.Matcher) -> bool:
    """Whether the metrics page documents a label value that an expression selects or excludes."""
    if matcher.name in SCRAPED or matcher.name == "code":
        return True
    return matcher.value == LEASE or f"`{matcher.value}`" in METRICS


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_series_of_other_controllers_with_the_same_name_are_excluded(where: str) -> None:
    shared = {row["name"] for row in METRIC.finditer(METRICS) if row[0].startswith("| `leader_election_")}
    shared |= set(re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\| every process \|", METRICS, re.MULTILINE))

    found = [node for node in nodes(EXPRESSIONS[where]) if isinstance(node, promql_parser.VectorSelector)]

    for selector in found:
        if re.sub("_(bucket|count|sum)$", "", selector.name or "") in shared:
            assert {matcher.name for matcher in selector.matchers.matchers} & {"job", "name"}


@pytest.mark.parametrize("alert", [alert for alert in ALERTS if "histogram_quantile" in alert["expr"]])
def test_a_quantile_is_compared_with_a_bucket_bound(alert: dict[str, str]) -> None:
    comparison = promql_parser.parse(alert["expr"])

    (selector,) = selectors(comparison)

    assert isinstance(comparison, promql_parser.BinaryExpr)
    assert isinstance(comparison.rhs, promql_parser.NumberLiteral)
    assert comparison.rhs.val in BUCKETS[selector.name or ""]


def test_no_two_panels_share_a_title_and_none_overlap() -> None:
    titles = [panel["title"] for panel in PANELS if panel["type"] != "row"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in PANELS)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(set(titles)) >= 30
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_every_alert_has_a_summary_and_a_runbook(alert: dict[str, dict[str, str]]) -> None:
    name = str(alert["alert"])
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")

    placeholders = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))

    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert page.endswith("/docs/operating.md")
    assert anchor == name.lower()
    assert f"\n### {name}\n" in RUNBOOKS
    assert placeholders <= result_labels(str(alert["expr"]))


def result_labels(text: str) -> set[str]:
    """The labels of an expression's result."""
    kept = [
        set(node.modifier.labels)
        for node in nodes(text)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None
    ]
    return set.intersection(*kept) if kept else set(SCRAPED)


def test_the_page_documents_only_existing_alerts() -> None:
    explained = re.findall(r"^### (Gpuruntime\w+)$", RUNBOOKS, re.MULTILINE)

    assert sorted(explained) == sorted(alert["alert"] for alert in ALERTS)
