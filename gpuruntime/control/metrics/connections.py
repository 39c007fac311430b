"""Metrics of the connections of HTTP sites."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.serving.connection_counters import ConnectionCounters

__all__ = ["ConnectionCollector", "CountedSite"]


class CountedSite(Protocol):
    """What a collector needs of a site."""

    @property
    def name(self) -> str: ...

    @property
    def connections(self) -> ConnectionCounters: ...


class ConnectionCollector(Collector):
    """Exports the connection counters of sites to a registry. The sequence is read at each scrape and may grow."""

    def __init__(self, registry: CollectorRegistry, sites: Sequence[CountedSite]) -> None:
        self._sites = sites
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        current = GaugeMetricFamily("gpuruntime_http_connections", "Open connections.", labels=("site",))
        limit = GaugeMetricFamily(
            "gpuruntime_http_connections_limit", "Maximum number of open connections.", labels=("site",)
        )
        evicted = CounterMetricFamily(
            "gpuruntime_http_connections_evicted",
            "Idle connections closed to make room for new ones.",
            labels=("site",),
        )
        refused = CounterMetricFamily(
            "gpuruntime_http_connections_refused",
            "Connections refused, by reason: all connections of the client's address (address) or of the site (total)"
            " are serving requests, or the process has no free file descriptors (descriptors).",
            labels=("site", "reason"),
        )
        timed_out = CounterMetricFamily(
            "gpuruntime_http_connections_timed_out",
            "Connections closed by a timeout, by phase: TLS handshake (handshake), request headers (head) or sending"
            " the response (send).",
            labels=("site", "phase"),
        )
        for site in self._sites:
            counters = site.connections
            current.add_metric((site.name,), counters.current)
            limit.add_metric((site.name,), counters.limit)
            evicted.add_metric((site.name,), counters.evicted)
            for reason, number in counters.refusals.items():
                refused.add_metric((site.name, reason), number)
            for phase, number in counters.timeouts.items():
                timed_out.add_metric((site.name, phase), number)
        return current, limit, evicted, refused, timed_out
