"""The metrics of requests: how long they take by route and answer, how many there are now, how many are streams."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.histogram import REQUEST_BUCKETS, Histogram

__all__ = ["TRAFFIC", "Traffic", "TrafficCollector", "measure"]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
_UNMATCHED: Final = "unmatched"
# As nginx has it: the caller was gone before there was an answer.
_GONE: Final = 499
_STREAM: Final = "text/event-stream"
# When the request that is being answered came; None if there is none, or it became a stream.
_BEGAN: Final[ContextVar[float | None]] = ContextVar("began", default=None)


class Traffic:
    """What a process counts of the requests that it serves.

    Guarantees:
        The number of figures is bounded by the routes there are, whatever callers send.
    """

    __slots__ = ("drops", "durations", "in_flight", "streams")

    def __init__(self) -> None:
        self.durations: dict[tuple[str, str, int], Histogram] = {}
        """By method, route and status."""
        self.in_flight = 0
        """Requests that are being answered, streams that have begun not among them."""
        self.streams = 0
        self.drops: Counter[str] = Counter(stalled=0)
        """Streams that this side ended because of their follower, by reason."""

    def dropped(self, reason: str) -> None:
        """Count a stream that is ended because of its follower."""
        self.drops[reason] += 1

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer, or that a stream began."""
        durations = self.durations.get((method, route, status))
        if durations is None:
            durations = self.durations[method, route, status] = Histogram(REQUEST_BUCKETS)
        durations.observe(seconds)


TRAFFIC: Final = web.AppKey("traffic", Traffic)
"""Where an application that is measured has its traffic."""


def measure(app: web.Application, traffic: Traffic, clock: Callable[[], float] = time.perf_counter) -> None:
    """Count the requests to an application. Before its other middlewares, so that it sees what callers see.

    A stream counts as answered when it begins; from then on it is one of the `streams`.
    """

    def end(request: web.Request, status: int, began: float) -> None:
        _BEGAN.set(None)
        traffic.in_flight -= 1
        traffic.answered(_method(request), _route(request), status, clock() - began)

    @web.middleware
    async def measured(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        _BEGAN.set(clock())
        traffic.in_flight += 1
        status = _GONE
        try:
            response = await handler(request)
            status = response.status
        except web.HTTPException as answer:
            status = answer.status
            raise
        except Exception:
            status = 500
            raise
        finally:
            began = _BEGAN.get()
            if began is None:
                traffic.streams -= 1
            else:
                end(request, status, began)
        return response

    async def begun(request: web.Request, response: web.StreamResponse) -> None:
        began = _BEGAN.get()
        if began is not None and response.content_type == _STREAM:
            end(request, response.status, began)
            traffic.streams += 1

    app[TRAFFIC] = traffic
    app.middlewares.append(measured)
    app.on_response_prepare.append(begun)


def _method(request: web.Request) -> str:
    return request.method if request.method in _METHODS else _OTHER


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return _UNMATCHED if resource is None else resource.canonical


class TrafficCollector(Collector):
    """Shows traffic in a registry. The series of a route begin with its first request."""

    def __init__(self, registry: CollectorRegistry, traffic: Traffic) -> None:
        self._traffic = traffic
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        seconds = HistogramMetricFamily(
            "gpuruntime_http_request_seconds",
            "Seconds from a request to its answer, by method, template of the route (unmatched if there is none) and"
            " status (499 if the caller was gone first). A stream is answered when it begins.",
            labels=("method", "route", "code"),
        )
        for (method, route, status), durations in self._traffic.durations.items():
            seconds.add_metric((method, route, str(status)), durations.cumulative(), durations.total)
        dropped = CounterMetricFamily(
            "gpuruntime_http_streams_dropped",
            "Streams that were ended because of their follower, by reason: stalled (it did not read).",
            labels=("reason",),
        )
        for reason, number in self._traffic.drops.items():
            dropped.add_metric((reason,), number)
        return (
            seconds,
            GaugeMetricFamily(
                "gpuruntime_http_requests_in_flight",
                "Requests that are being answered now, streams that have begun not among them.",
                self._traffic.in_flight,
            ),
            GaugeMetricFamily("gpuruntime_http_streams", "Streams that are followed now.", self._traffic.streams),
            dropped,
        )
