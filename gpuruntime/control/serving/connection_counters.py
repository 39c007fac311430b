"""What a site counts of its connections, and the metrics of it."""

from collections.abc import Iterable, Sequence, Sized
from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["ConnectionCollector", "ConnectionCounters", "CountedSite"]

_REFUSALS: Final = ("address", "descriptors", "total")
_PHASES: Final = ("handshake", "head", "send")


class ConnectionCounters:
    """What became of connections since the start."""

    __slots__ = ("_open", "evicted", "limit", "refusals", "timeouts")

    def __init__(self) -> None:
        self._open: Sized = ()
        self.limit = 0
        self.evicted = 0
        self.refusals = dict.fromkeys(_REFUSALS, 0)
        self.timeouts = dict.fromkeys(_PHASES, 0)

    @property
    def now(self) -> int:
        return len(self._open)

    def watch(self, connections: Sized, limit: int) -> None:
        """Show how many connections there are, and may be."""
        self._open, self.limit = connections, limit

    def refused(self, reason: str) -> None:
        self.refusals[reason] += 1

    def timed_out(self, phase: str) -> None:
        self.timeouts[phase] += 1


class CountedSite(Protocol):
    """A site by its name, and what it counts."""

    @property
    def name(self) -> str: ...

    @property
    def connections(self) -> ConnectionCounters: ...


class ConnectionCollector(Collector):
    """Shows in a registry what sites count."""

    def __init__(self, registry: CollectorRegistry, sites: Sequence[CountedSite]) -> None:
        self._sites = sites
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        now = GaugeMetricFamily("gpuruntime_http_connections", "Connections that are open now.", labels=("site",))
        limit = GaugeMetricFamily(
            "gpuruntime_http_connections_limit", "The most connections that are open at a time.", labels=("site",)
        )
        evicted = CounterMetricFamily(
            "gpuruntime_http_connections_evicted",
            "Connections closed while they waited for a request, to make room for a new one.",
            labels=("site",),
        )
        refused = CounterMetricFamily(
            "gpuruntime_http_connections_refused",
            "Connections refused because every one that could give way served a request: of the same address"
            " (address), of all (total), or because the process could open no more files (descriptors).",
            labels=("site", "reason"),
        )
        timed_out = CounterMetricFamily(
            "gpuruntime_http_connections_timed_out",
            "Connections closed because the TLS handshake (handshake), the headers of a request (head) or the reading"
            " of an answer (send) took too long.",
            labels=("site", "phase"),
        )
        for site in self._sites:
            counters = site.connections
            now.add_metric((site.name,), counters.now)
            limit.add_metric((site.name,), counters.limit)
            evicted.add_metric((site.name,), counters.evicted)
            for reason, number in counters.refusals.items():
                refused.add_metric((site.name, reason), number)
            for phase, number in counters.timeouts.items():
                timed_out.add_metric((site.name, phase), number)
        return now, limit, evicted, refused, timed_out
