import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientConnectionError, ClientSession, ClientTimeout, web
from prometheus_client import CollectorRegistry

from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.server.metrics import RequestMetrics, RequestMetricsCollector, instrument
from gpuruntime.endpoints.server.response_format import formatted
from tests.product_scenes import eventually


class Handlers:
    """Handlers that wait until they may respond."""

    def __init__(self) -> None:
        self.entered, self.respond = asyncio.Event(), asyncio.Event()

    async def wait(self, _request: web.Request) -> web.Response:
        self.entered.set()
        await self.respond.wait()
        return web.Response(text="done")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await self.respond.wait()
        return response


async def named(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def broken(_request: web.Request) -> web.Response:
    raise ZeroDivisionError


@asynccontextmanager
async def measured(metrics: RequestMetrics, handlers: Handlers) -> AsyncIterator[ClientSession]:
    """A client of an instrumented application."""
    ticks = iter(range(1000))
    app = web.Application()
    instrument(app, metrics, lambda: float(next(ticks)))
    app.middlewares.append(formatted)
    app.router.add_get("/things/{name}", named)
    app.router.add_get("/wait", handlers.wait)
    app.router.add_get("/stream", handlers.stream)
    app.router.add_get("/broken", broken)
    async with serving(app, HttpAddress()) as bound, ClientSession(bound.url) as client:
        yield client


def counted(metrics: RequestMetrics) -> dict[tuple[str, str, int], int]:
    return {labels: sum(durations.counts) for labels, durations in metrics.durations.items()}


async def test_requests_are_counted_by_method_route_template_and_status() -> None:
    metrics = RequestMetrics()
    async with measured(metrics, Handlers()) as client:
        for path in ("/things/a", "/things/b", "/unknown/1", "/unknown/2", "/broken"):
            async with client.get(path) as response:
                await response.read()
        async with client.request("PROPFIND", "/things/a") as response, client.post("/things/a") as other:
            statuses = response.status, other.status

    assert statuses == (405, 405)
    assert counted(metrics) == {
        ("GET", "/things/{name}", 200): 2,
        ("GET", "unmatched", 404): 2,
        ("GET", "/broken", 500): 1,
        ("other", "unmatched", 405): 1,
        ("POST", "unmatched", 405): 1,
    }


async def test_a_request_is_in_flight_until_its_response() -> None:
    metrics, handlers = RequestMetrics(), Handlers()
    async with measured(metrics, handlers) as client:
        asking = asyncio.create_task(client.get("/wait"))
        await handlers.entered.wait()
        during = metrics.in_flight
        handlers.respond.set()
        (await asking).release()

    assert (during, metrics.in_flight) == (1, 0)
    assert metrics.durations["GET", "/wait", 200].total == 1.0


async def test_a_request_whose_client_disconnects_counts_as_499() -> None:
    metrics, handlers = RequestMetrics(), Handlers()
    async with measured(metrics, handlers) as client:
        asking = asyncio.create_task(client.get("/wait"))
        await handlers.entered.wait()
        asking.cancel()
        await eventually(lambda: metrics.in_flight == 0)

    assert counted(metrics) == {("GET", "/wait", 499): 1}


async def test_a_stream_counts_as_a_response_when_it_begins_and_as_open_until_it_ends() -> None:
    metrics, handlers = RequestMetrics(), Handlers()
    async with measured(metrics, handlers) as client:
        async with client.get("/stream") as response:
            during = metrics.in_flight, metrics.streams, counted(metrics)
            handlers.respond.set()
            await response.read()
        await eventually(lambda: metrics.streams == 0)

    assert during == (0, 1, {("GET", "/stream", 200): 1})
    assert (metrics.in_flight, counted(metrics)) == (0, {("GET", "/stream", 200): 1})


async def test_a_stream_ends_when_its_client_disconnects() -> None:
    metrics, handlers = RequestMetrics(), Handlers()
    async with measured(metrics, handlers) as client:
        with pytest.raises((ClientConnectionError, TimeoutError)):
            async with client.get("/stream", timeout=ClientTimeout(total=0.2)) as response:
                await response.read()
        await eventually(lambda: metrics.streams == 0)

    assert metrics.in_flight == 0


def test_metrics_are_exported_under_their_names() -> None:
    registry, metrics = CollectorRegistry(), RequestMetrics()
    RequestMetricsCollector(registry, metrics)

    metrics.responded("GET", "/things/{name}", 200, 0.3)
    metrics.in_flight, metrics.streams = 2, 3

    labels = {"method": "GET", "route": "/things/{name}", "code": "200"}
    assert registry.get_sample_value("gpuruntime_http_request_seconds_bucket", {**labels, "le": "0.25"}) == 0
    assert registry.get_sample_value("gpuruntime_http_request_seconds_bucket", {**labels, "le": "0.5"}) == 1
    assert registry.get_sample_value("gpuruntime_http_requests_in_flight") == 2
    assert registry.get_sample_value("gpuruntime_http_streams") == 3
