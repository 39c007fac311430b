"""Metrics of streams: how many are open, how they ended, and the bytes that they passed on."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.gateway.proxy.streams import Streams

__all__ = ["StreamCollector"]


class StreamCollector(Collector):
    """Exports the streams of a gateway to a registry."""

    def __init__(self, registry: CollectorRegistry, streams: Streams) -> None:
        self._streams = streams
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        ended = CounterMetricFamily(
            "gpuruntime_access_streams_ended",
            "Streams that ended, by reason: complete, refused (there was no stream), client_closed, idle (no bytes for"
            " the idle timeout), drained (at shutdown), accessor_failed.",
            labels=("reason",),
        )
        for reason, number in self._streams.ended.items():
            ended.add_metric((reason,), number)
        return (
            GaugeMetricFamily("gpuruntime_access_streams", "Open streams to accessors.", self._streams.open),
            ended,
            CounterMetricFamily(
                "gpuruntime_access_bytes", "Bytes of content that were passed on to callers.", self._streams.bytes
            ),
        )
