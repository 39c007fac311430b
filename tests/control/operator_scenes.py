"""What tests of metrics, probes and debug pages have in common."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from attrs import field, frozen
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.kube.auth.credentials import Authorization, Endpoint
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.scripted import ScriptedServer, Stall, Step, WatchEvent, respond, watch_stream

MAPS = "/api/v1/configmaps"


@frozen
class Anonymous:
    """Credentials for a server that lets in everybody."""

    endpoint: Endpoint

    async def authorize(self) -> Authorization:
        return Authorization(CIMultiDictProxy(CIMultiDict()), None)

    async def refused(self, used: Authorization) -> bool:  # noqa: ARG002 - there is nothing else to try
        return False


def open_transport(url: str) -> Transport:
    return Transport(Anonymous(Endpoint(url)), user_agent="tests")


@asynccontextmanager
async def scripted_cache() -> AsyncIterator[tuple[ScriptedServer, Cache]]:
    """A server to be scripted, and a cache of its objects, not yet running."""
    async with ScriptedServer() as server, open_transport(server.url) as transport:
        yield server, Cache(transport)


def serve(
    server: ScriptedServer, path: str, kind: str, objects: Sequence[dict[str, Any]], *later: WatchEvent | Step
) -> None:
    """A collection of these objects at version 9, and what a watch of it tells."""
    listing = {"kind": f"{kind}List", "metadata": {"resourceVersion": "9"}, "items": objects}
    server.on("GET", path, watch=False).answer(respond(200, listing))
    server.on("GET", path, watch=True).answer(watch_stream(*later, Stall()))


def serve_two_maps(server: ScriptedServer, path: str = MAPS) -> None:
    """Two config maps, of which the second cannot be read, and to which nothing happens."""
    good = {"metadata": {"name": "good", "namespace": "a", "resourceVersion": "5"}}
    odd = {"metadata": {"name": "odd", "namespace": "a", "resourceVersion": "6"}, "data": 7}
    serve(server, path, "ConfigMap", [good, odd])


@frozen
class Inspected:
    """What the debug pages know of a controller."""

    name: str
    queue: WorkQueue[Any]
    parse_key: Callable[[str], Any] = ObjectKey.parse
    counters: ReconcileCounters = field(factory=ReconcileCounters)


@asynccontextmanager
async def browsing(application: web.Application) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of an application that is served for the length of the block."""
    async with (
        serving(application, HttpAddress()) as bound,
        aiohttp.ClientSession(bound.url) as client,
    ):
        yield client
