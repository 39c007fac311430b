"""docs/metrics.md lists the metrics of the processes and no others."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from hack.generators import metrics_page
from hack.generators.metrics_page import MetricsPageError, Shown, filled, shown_in

CLAIMS = Shown("gpuruntime_claims_total", "counter", ("outcome",), "Claims & more.")
PAGE = "# Metrics\n<!-- metrics: gpuruntime_claims_* -->\nold\n<!-- end of metrics -->\nProse.\n"


class Claims(Collector):
    """A collector without samples."""

    def collect(self) -> list[Metric]:
        return [CounterMetricFamily("gpuruntime_claims", "Claims & more.", labels=["outcome"])]


def test_the_page_is_current() -> None:
    assert metrics_page.update(check=True) == 0, "run ./hack/generate"


def test_a_metric_is_known_with_its_labels_before_it_has_samples() -> None:
    registry = CollectorRegistry()
    registry.register(Claims())

    assert shown_in(registry) == {CLAIMS}


def test_a_table_is_written_between_its_comments_and_nothing_else_is_touched() -> None:
    everywhere = frozenset(metrics_page._PROCESSES)

    page = filled(PAGE, {CLAIMS: everywhere})
    one = filled(PAGE, {CLAIMS: frozenset({"runtime-api"})})

    assert page.startswith("# Metrics\n<!-- metrics: gpuruntime_claims_* -->\n| Name |")
    assert page.endswith(
        "\n| `gpuruntime_claims_total` | counter | `outcome` | every process | Claims &amp; more. |\n"
        "<!-- end of metrics -->\nProse.\n"
    )
    assert "| `runtime-api` |" in one
    assert filled(page, {CLAIMS: everywhere}) == page


@pytest.mark.parametrize("page", ["# Metrics\n", PAGE + PAGE])
def test_a_metric_without_a_table_or_with_two_is_refused_by_name(page: str) -> None:
    with pytest.raises(MetricsPageError, match="gpuruntime_claims_total"):
        filled(page, {CLAIMS: frozenset()})
