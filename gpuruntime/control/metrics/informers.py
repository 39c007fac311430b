"""Metrics of informers: store size, freshness, list and watch requests, handler failures."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.informer import Informer, InformerScope

__all__ = ["InformerCollector", "InformerLabels"]

# Exported from the start, so that `rate` sees the first increase.
_CAUSES: Final = ("start", "expired", "restored", "vanished", "broken")


class InformerLabels(NamedTuple):
    """The labels of an informer's series."""

    kind: str
    """As in "apps/v1 Deployment"."""
    namespaces: str
    """Separated by commas; empty for all namespaces."""
    selector: str
    """The label selector, then the field selector in "fields(...)"; empty for everything."""

    @classmethod
    def of(cls, scope: InformerScope[Any]) -> "InformerLabels":
        fields = f"fields({scope.fields})" if str(scope.fields) else ""
        selector = ",".join(filter(None, (str(scope.labels), fields)))
        return cls(str(scope.storage.kind), ",".join(scope.namespaces), selector)


class InformerCollector(Collector):
    """Exports the informers of a cache to a registry.

    Guarantees:
        Values are current at the scrape, and informers that are added later are included. No series appears twice:
        informers that differ only in the form of their objects are exported as one, with the sums of their counters
        and the age of the oldest, and as synced once all of them are.

    Caveats:
        `now` is the time of the cache's loop. Scrape in the thread of that loop.
    """

    def __init__(self, registry: CollectorRegistry, cache: Cache, now: Callable[[], float]) -> None:
        self._cache = cache
        self._now = now
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return _Families().all()

    def collect(self) -> Iterable[Metric]:
        alike: dict[InformerLabels, list[Informer[Any]]] = {}
        for informer in self._cache.informers:
            alike.setdefault(InformerLabels.of(informer.scope), []).append(informer)
        families, now = _Families(), self._now()
        for labels, informers in alike.items():
            families.fill(labels, informers, now)
        return families.all()


class _Families:
    """The metrics of one scrape."""

    def __init__(self) -> None:
        self._synced = _gauge("synced", "1 once the initial list is complete, 0 before.")
        self._objects = _gauge("objects", "Objects in the store.")
        self._bytes = _gauge("bytes", "Size of the stored objects on the wire, in bytes.")
        self._quarantined = _gauge("quarantined", "Objects in the store that cannot be decoded.")
        self._age = _gauge(
            "last_contact_age_seconds", "Seconds since anything was received from the server; +Inf before the first."
        )
        self._relists = _counter("relists", "Full lists, by cause.", "cause")
        self._requests = _counter("requests", "List and watch requests started.")
        self._events = _counter("events", "Watch events received after the initial list.")
        self._failures = _counter("handler_failures", "Exceptions raised by event handlers.")
        self._index_failures = _counter("index_failures", "Exceptions raised by indexes, transforms and projections.")
        self._retrying = _gauge(
            "retrying", "Objects being retried because an event handler, index, transform or projection raised."
        )

    def all(self) -> Iterator[Metric]:
        yield from (self._synced, self._objects, self._bytes, self._quarantined, self._age)
        yield from (self._relists, self._requests, self._events, self._failures, self._index_failures, self._retrying)

    def fill(self, labels: InformerLabels, informers: Sequence[Informer[Any]], now: float) -> None:
        watches = [health for informer in informers for health in informer.health]
        relists = Counter(dict.fromkeys(_CAUSES, 0))
        for health in watches:
            relists.update(health.relists)
        for cause, count in relists.items():
            self._relists.add_metric((*labels, cause), count)
        self._synced.add_metric(labels, all(informer.has_synced for informer in informers))
        self._objects.add_metric(labels, sum(len(informer.store) for informer in informers))
        self._bytes.add_metric(labels, sum(informer.store.size for informer in informers))
        self._quarantined.add_metric(labels, sum(informer.store.quarantined for informer in informers))
        self._age.add_metric(labels, max(informer.age(now) for informer in informers))
        self._requests.add_metric(labels, sum(health.requests for health in watches))
        self._events.add_metric(labels, sum(informer.events for informer in informers))
        self._failures.add_metric(labels, sum(informer.handler_failures for informer in informers))
        self._index_failures.add_metric(labels, sum(informer.index_failures for informer in informers))
        self._retrying.add_metric(labels, sum(informer.retrying for informer in informers))


def _gauge(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"gpuruntime_informer_{name}", help_text, labels=InformerLabels._fields)


def _counter(name: str, help_text: str, *more: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"gpuruntime_informer_{name}", help_text, labels=(*InformerLabels._fields, *more))
