"""Request metrics: latency by route and status, requests in flight, open streams and dropped streams."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.metrics import REQUEST_BUCKETS, Histogram

__all__ = ["REQUEST_METRICS", "RequestMetrics", "RequestMetricsCollector", "instrument"]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
_UNMATCHED: Final = "unmatched"
# The status that nginx logs for it.
_CLIENT_CLOSED_REQUEST: Final = 499
_STREAM: Final = "text/event-stream"
# Start of the current request; None if there is none, or if it has become a stream.
_STARTED: Final[ContextVar[float | None]] = ContextVar("request_started", default=None)


class RequestMetrics:
    """Counters of the requests that a process serves.

    Guarantees:
        The number of series is bounded by the number of routes, whatever callers send.
    """

    __slots__ = ("drops", "durations", "in_flight", "streams")

    def __init__(self) -> None:
        self.durations: dict[tuple[str, str, int], Histogram] = {}
        """By method, route and status."""
        self.in_flight = 0
        """Requests without a response yet; streams that have begun are not counted."""
        self.streams = 0
        self.drops: Counter[str] = Counter(stalled=0)
        """Streams that the server ended because of their client, by reason."""

    def dropped(self, reason: str) -> None:
        """Count a stream that the server ended because of its client."""
        self.drops[reason] += 1

    def responded(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a response, or the start of a stream."""
        durations = self.durations.get((method, route, status))
        if durations is None:
            durations = self.durations[method, route, status] = Histogram(REQUEST_BUCKETS)
        durations.observe(seconds)


REQUEST_METRICS: Final = web.AppKey("request_metrics", RequestMetrics)
"""The key of an instrumented application's metrics."""


def instrument(app: web.Application, metrics: RequestMetrics, clock: Callable[[], float] = time.perf_counter) -> None:
    """Count the requests to an application. Call it before other middlewares are added, to measure what clients see.

    The latency of a stream ends when the stream begins; from then on it counts as an open stream.
    """

    def finish(request: web.Request, status: int, started: float) -> None:
        _STARTED.set(None)
        metrics.in_flight -= 1
        metrics.responded(_method(request), _route(request), status, clock() - started)

    @web.middleware
    async def measured(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        _STARTED.set(clock())
        metrics.in_flight += 1
        status = _CLIENT_CLOSED_REQUEST
        try:
            response = await handler(request)
            status = response.status
        except web.HTTPException as error:
            status = error.status
            raise
        except Exception:
            status = 500
            raise
        finally:
            started = _STARTED.get()
            if started is None:
                metrics.streams -= 1
            else:
                finish(request, status, started)
        return response

    async def stream_started(request: web.Request, response: web.StreamResponse) -> None:
        started = _STARTED.get()
        if started is not None and response.content_type == _STREAM:
            finish(request, response.status, started)
            metrics.streams += 1

    app[REQUEST_METRICS] = metrics
    app.middlewares.append(measured)
    app.on_response_prepare.append(stream_started)


def _method(request: web.Request) -> str:
    return request.method if request.method in _METHODS else _OTHER


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return _UNMATCHED if resource is None else resource.canonical


class RequestMetricsCollector(Collector):
    """Exports request metrics to a registry. The series of a route appear with its first request."""

    def __init__(self, registry: CollectorRegistry, metrics: RequestMetrics) -> None:
        self._metrics = metrics
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        seconds = HistogramMetricFamily(
            "gpuruntime_http_request_seconds",
            "HTTP request latency in seconds, by method, route template (unmatched if there is none) and status code"
            " (499 if the client disconnected first). For a stream, the time until it begins.",
            labels=("method", "route", "code"),
        )
        for (method, route, status), durations in self._metrics.durations.items():
            seconds.add_metric((method, route, str(status)), durations.cumulative(), durations.total)
        dropped = CounterMetricFamily(
            "gpuruntime_http_streams_dropped",
            "Event streams that the server ended because of the client, by reason: stalled (the client did not read).",
            labels=("reason",),
        )
        for reason, number in self._metrics.drops.items():
            dropped.add_metric((reason,), number)
        return (
            seconds,
            GaugeMetricFamily(
                "gpuruntime_http_requests_in_flight",
                "HTTP requests without a response yet, event streams that have begun not included.",
                self._metrics.in_flight,
            ),
            GaugeMetricFamily("gpuruntime_http_streams", "Open event streams.", self._metrics.streams),
            dropped,
        )
