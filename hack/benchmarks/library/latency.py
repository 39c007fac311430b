"""The time from sending an event, in another process, to the start of its reconcile in an idle manager."""

import asyncio
import json
import random
import time
from typing import Any

from aiohttp import web

from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.loopback_http import LoopbackServer
from gpuruntime.testing.scripted import added, initial_events_end, line_of
from hack.benchmarks.alternating import Measure, alternate
from hack.benchmarks.catalogue import Catalogue, loops
from hack.benchmarks.contenders import Contender, Outcome
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["SCENARIO"]

_EVENTS, _QUICK_EVENTS = 500, 100
_GAP_SECONDS = (0.010, 0.020)
_LIMIT_SECONDS = 90.0
_MEASURES = (
    Measure("p50", "ms", lambda reading: reading["p50_ms"]),
    Measure("p99", "ms", lambda reading: reading["p99_ms"], tuple(Bar(loop.contender, 5.0) for loop in loops())),
    Measure("longest", "ms", lambda reading: reading["longest_ms"]),
)


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    return catalogue.ours("latency.py", loops())


async def run(bench: Bench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    events = _QUICK_EVENTS if bench.quick else _EVENTS

    async def once(contender: Contender) -> Outcome:
        async with LoopbackServer(_Sender(events).handle) as server:
            kubeconfig = bench.directory / "latency.kubeconfig"
            kubeconfig.write_text(json.dumps(kubeconfig_document(server.url, b"", {"token": "none"})))
            return await bench.runner.run(
                contender,
                ("latency", "--objects", str(events)),
                {"KUBECONFIG": str(kubeconfig), "READY": f"{server.url}/ready"},
                _LIMIT_SECONDS,
            )

    results = await alternate(participants, bench.repeat, once, bench.say)
    return tuple(results.figure(measure) for measure in _MEASURES)


class _Sender:
    """A server that sends new ConfigMaps when its client is ready, each with its send time.

    Each event has its own object, so that no two are merged into one reconcile, which would hide the slower one.
    """

    def __init__(self, events: int) -> None:
        self._events = events
        self._ready = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/ready":
            self._ready.set()
            return web.Response()
        if request.path != "/api/v1/configmaps":
            return web.Response(status=404)
        if request.query.get("watch") != "true":
            listing = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1000"}}
            return web.json_response({**listing, "items": [_map(0)]})
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            await response.write(line_of(added(_map(0))) + line_of(initial_events_end("1000", kind="ConfigMap")))
        await self._ready.wait()
        for number in range(1, self._events + 1):
            await asyncio.sleep(random.uniform(*_GAP_SECONDS))
            await response.write(line_of(added(_map(number))))
        await asyncio.get_running_loop().create_future()
        return response


def _map(number: int) -> dict[str, Any]:
    metadata = {
        "name": f"event-{number}",
        "namespace": "default",
        "uid": str(number),
        "resourceVersion": str(1000 + number),
        "annotations": {"sent": repr(time.monotonic())},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state": "new"}}


SCENARIO = Scenario("latency", "An event sent to its reconcile started, in an idle manager", False, contenders, run)
