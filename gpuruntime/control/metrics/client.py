"""Metrics of requests to API servers, with client-go's name and help."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["ClientCollector", "CountedTransport"]


class CountedTransport(Protocol):
    """What a collector needs of a transport."""

    @property
    def server(self) -> str:
        """The address of the API server."""

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """The number of requests by (code, method)."""


class ClientCollector(Collector):
    """Exports the requests of transports to a registry; transports to the same host share its series.

    Guarantees:
        The label `host` is the host with its port, if the address has one, and never contains user name or password.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._transports: list[CountedTransport] = []
        registry.register(self)

    def add(self, transport: CountedTransport) -> None:
        """Export a transport from now on."""
        self._transports.append(transport)

    def describe(self) -> Iterable[Metric]:
        return [_family()]

    def collect(self) -> Iterable[Metric]:
        sums: Counter[tuple[str, str, str]] = Counter()
        for transport in self._transports:
            # Read at each scrape: credentials, and with them the address, may be found after the process has started.
            _, _, host = urlsplit(transport.server).netloc.rpartition("@")
            for (code, method), count in transport.counts.items():
                sums[code, method, host] += count
        requests = _family()
        for labels, count in sums.items():
            requests.add_metric(labels, count)
        return [requests]


def _family() -> CounterMetricFamily:
    return CounterMetricFamily(
        "rest_client_requests",
        'Number of HTTP requests, partitioned by status code ("<error>" without a response), method, and host.',
        labels=("code", "method", "host"),
    )
