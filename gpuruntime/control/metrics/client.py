"""The metric of requests to API servers, under the name that client-go made known."""

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
        """The address that it sends to."""

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How often a request was sent, by (code, method)."""


class ClientCollector(Collector):
    """Shows in a registry what transports sent; those to one host share its series.

    Guarantees:
        The label `host` is the host and, where the address has one, the port, and never a name or password in it.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._transports: list[CountedTransport] = []
        registry.register(self)

    def add(self, transport: CountedTransport) -> None:
        """Show a transport from now on."""
        self._transports.append(transport)

    def describe(self) -> Iterable[Metric]:
        return [_family()]

    def collect(self) -> Iterable[Metric]:
        sums: Counter[tuple[str, str, str]] = Counter()
        for transport in self._transports:
            # Asked each time: credentials may be found only after the process has started.
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
        'Requests that were sent, by code ("<error>" where no answer came), method and host.',
        labels=("code", "method", "host"),
    )
