import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientConnectionError, ClientSession, ClientTimeout, web
from prometheus_client import CollectorRegistry

from gpuruntime.control.serving.site import HttpAddress, serving
from gpuruntime.web.server.envelope import enveloped
from gpuruntime.web.server.metrics import Traffic, TrafficCollector, measure
from tests.product_scenes import eventually


class Doors:
    """Handlers that wait to be let go."""

    def __init__(self) -> None:
        self.entered, self.open = asyncio.Event(), asyncio.Event()

    async def wait(self, _request: web.Request) -> web.Response:
        self.entered.set()
        await self.open.wait()
        return web.Response(text="done")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await self.open.wait()
        return response


async def named(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def broken(_request: web.Request) -> web.Response:
    raise ZeroDivisionError


@asynccontextmanager
async def measured(traffic: Traffic, doors: Doors) -> AsyncIterator[ClientSession]:
    """A client of an application whose requests are counted."""
    ticks = iter(range(1000))
    app = web.Application()
    measure(app, traffic, lambda: float(next(ticks)))
    app.middlewares.append(enveloped)
    app.router.add_get("/things/{name}", named)
    app.router.add_get("/wait", doors.wait)
    app.router.add_get("/stream", doors.stream)
    app.router.add_get("/broken", broken)
    async with serving(app, HttpAddress()) as bound, ClientSession(bound.url) as client:
        yield client


def counted(traffic: Traffic) -> dict[tuple[str, str, int], int]:
    return {labels: sum(durations.counts) for labels, durations in traffic.durations.items()}


async def test_requests_are_counted_by_method_template_and_status_whatever_callers_send() -> None:
    traffic = Traffic()
    async with measured(traffic, Doors()) as client:
        for path in ("/things/a", "/things/b", "/nowhere/1", "/nowhere/2", "/broken"):
            async with client.get(path) as response:
                await response.read()
        async with client.request("PROPFIND", "/things/a") as response, client.post("/things/a") as other:
            refusals = response.status, other.status

    assert refusals == (405, 405)
    assert counted(traffic) == {
        ("GET", "/things/{name}", 200): 2,
        ("GET", "unmatched", 404): 2,
        ("GET", "/broken", 500): 1,
        ("other", "unmatched", 405): 1,
        ("POST", "unmatched", 405): 1,
    }


async def test_a_request_is_in_flight_until_it_is_answered() -> None:
    traffic, doors = Traffic(), Doors()
    async with measured(traffic, doors) as client:
        asking = asyncio.create_task(client.get("/wait"))
        await doors.entered.wait()
        during = traffic.in_flight
        doors.open.set()
        (await asking).release()

    assert (during, traffic.in_flight) == (1, 0)
    assert traffic.durations["GET", "/wait", 200].total == 1.0


async def test_a_caller_who_goes_away_is_told_from_one_who_is_answered() -> None:
    traffic, doors = Traffic(), Doors()
    async with measured(traffic, doors) as client:
        asking = asyncio.create_task(client.get("/wait"))
        await doors.entered.wait()
        asking.cancel()
        await eventually(lambda: traffic.in_flight == 0)

    assert counted(traffic) == {("GET", "/wait", 499): 1}


async def test_a_stream_is_answered_when_it_begins_and_then_is_a_stream_until_it_ends() -> None:
    traffic, doors = Traffic(), Doors()
    async with measured(traffic, doors) as client:
        async with client.get("/stream") as response:
            during = traffic.in_flight, traffic.streams, counted(traffic)
            doors.open.set()
            await response.read()
        await eventually(lambda: traffic.streams == 0)

    assert during == (0, 1, {("GET", "/stream", 200): 1})
    assert (traffic.in_flight, counted(traffic)) == (0, {("GET", "/stream", 200): 1})


async def test_a_stream_whose_follower_is_cut_off_ends() -> None:
    traffic, doors = Traffic(), Doors()
    async with measured(traffic, doors) as client:
        with pytest.raises((ClientConnectionError, TimeoutError)):
            async with client.get("/stream", timeout=ClientTimeout(total=0.2)) as response:
                await response.read()
        await eventually(lambda: traffic.streams == 0)

    assert traffic.in_flight == 0


def test_figures_are_shown_under_their_names() -> None:
    registry, traffic = CollectorRegistry(), Traffic()
    TrafficCollector(registry, traffic)

    traffic.answered("GET", "/things/{name}", 200, 0.3)
    traffic.in_flight, traffic.streams = 2, 3

    labels = {"method": "GET", "route": "/things/{name}", "code": "200"}
    assert registry.get_sample_value("gpuruntime_http_request_seconds_bucket", {**labels, "le": "0.25"}) == 0
    assert registry.get_sample_value("gpuruntime_http_request_seconds_bucket", {**labels, "le": "0.5"}) == 1
    assert registry.get_sample_value("gpuruntime_http_requests_in_flight") == 2
    assert registry.get_sample_value("gpuruntime_http_streams") == 3
