"""A replica that streams units, and its clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientTimeout, web
from aiohttp.test_utils import TestClient, TestServer
from attrs import field, frozen
from prometheus_client import CollectorRegistry, generate_latest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Cache
from gpuruntime.endpoints.server.metrics import RequestMetrics, RequestMetricsCollector, instrument
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.service.reads.reader import Reads
from gpuruntime.service.reads.watch_log import WatchLog
from gpuruntime.web.resources.unit_models import unit_view
from gpuruntime.web.sse.stream import ObjectStreams
from tests.product_scenes import eventually
from tests.web.resource_scenes import Events

__all__ = ["Replica", "replica"]


@frozen
class Replica:
    """One process that streams units."""

    log: WatchLog[GPUUnit]
    reads: Reads[GPUUnit]
    namespace: str
    client: "TestClient[web.Request, web.Application]" = field(repr=False)
    metrics: RequestMetrics
    registry: CollectorRegistry

    @asynccontextmanager
    async def follow(self, last: str = "") -> AsyncIterator[Events]:
        """A stream of the units of the namespace, after the event with this id."""
        headers = {"Last-Event-ID": last} if last else {}
        async with self.client.get("/", headers=headers, timeout=ClientTimeout(total=None)) as response:
            yield Events(response, last)

    def scrape(self) -> str:
        """The metrics in text format."""
        return generate_latest(self.registry).decode()

    async def sees(self, version: str) -> None:
        """Returns when the cache of the replica shows a version."""
        assert await self.reads.caught_up(version, within=60)


@asynccontextmanager
async def replica(
    credentials: Credentials,
    namespace: str,
    kept: int = 2048,
    *,
    beside: str = "",
    also: str = "",
    namespaces: Namespaces | None = None,
) -> AsyncIterator[Replica]:
    """A replica that keeps `kept` changes, for the length of the block.

    It watches all namespaces with one watch; or this one and one `beside` it, which no client follows; or this one and
    another one, which clients follow `also`.
    """
    followed = (namespace, also) if also else (namespace,)
    watched = followed if beside or also else ()
    async with Transport(credentials, user_agent="replica") as transport:
        cache = Cache(transport)
        informer = cache.informer(GPUUnit, namespaces=(*watched, beside) if beside else watched)
        log = WatchLog(informer, kept, watched)
        reads = Reads(informer, Client(transport, field_manager="replica"), GPUUnit, watched)
        known = namespaces or Namespaces()
        streams = ObjectStreams(log, reads, lambda unit: unit_view(unit, known))

        async def serve(request: web.Request) -> web.StreamResponse:
            return await streams.serve(request, None, lambda unit: unit.metadata.namespace in followed)

        app, registry, metrics = web.Application(), CollectorRegistry(), RequestMetrics()
        RequestMetricsCollector(registry, metrics)
        instrument(app, metrics)
        app.router.add_get("/", serve)
        tasks = [asyncio.create_task(cache.run()), asyncio.create_task(log.run())]
        try:
            await eventually(lambda: log.is_following)
            async with TestClient(TestServer(app)) as client:
                yield Replica(log, reads, namespace, client, metrics, registry)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
