"""The number of reconciles (10 ms each) for 101 changes of one object that arrive in one chunk of a watch."""

import asyncio
import json
from pathlib import Path
from typing import Any

from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.scripted import (
    Hold,
    ScriptedServer,
    Stall,
    added,
    in_one_chunk,
    initial_events_end,
    kube_status,
    modified,
    respond,
    watch_stream,
)
from hack.benchmarks.alternating import Measure, alternate
from hack.benchmarks.catalogue import Catalogue, loops
from hack.benchmarks.contenders import Contender, Outcome
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["SCENARIO"]

_CHANGES = 101
_SETTLING_SECONDS = 0.5
_LIMIT_SECONDS = 60.0
_MAPS = "/api/v1/configmaps"
_VERSION = 1000
_REFUSED = kube_status(404, "NotFound")
_RUNS = Measure(
    "reconciles of 101 changes",
    "runs",
    lambda reading: reading["reconciles"],
    tuple(Bar(variant.contender, 3.0) for variant in loops()),
)


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    kopf = (peer for peer in catalogue.peers() if peer.name == "kopf")
    return (*catalogue.ours("coalescing.py", loops()), *kopf)


async def run(bench: Bench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    async def once(contender: Contender) -> Outcome:
        async with ScriptedServer() as server:
            _script(server)
            opening = asyncio.create_task(_open_when_ready(server))
            try:
                return await bench.runner.run(
                    contender,
                    ("coalescing", "--objects", str(_CHANGES), "--seconds", str(_SETTLING_SECONDS)),
                    {"KUBECONFIG": str(_kubeconfig(bench.directory, server.url)), "READY": f"{server.url}/ready"},
                    _LIMIT_SECONDS,
                )
            finally:
                opening.cancel()
                await asyncio.wait([opening])

    return ((await alternate(participants, bench.repeat, once, bench.say)).figure(_RUNS),)


async def _open_when_ready(server: ScriptedServer) -> None:
    await server.seen(1, "GET", "/ready")
    server.release("changes")


def _script(server: ScriptedServer) -> None:
    """The object exists from the start; its changes are sent when the contender reports that it is ready."""
    start = _state(0)
    changes = in_one_chunk(*(modified(_state(number)) for number in range(1, _CHANGES + 1)))
    rest = (Hold("changes"), changes, Stall())
    server.on("GET", _MAPS, watch=True, query={"sendInitialEvents": "true"}).answer(
        watch_stream(added(start), initial_events_end(str(_VERSION), kind="ConfigMap"), *rest)
    )
    server.on("GET", _MAPS, watch=True).answer(watch_stream(*rest))
    listing = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": str(_VERSION)}}
    server.on("GET", _MAPS, watch=False).answer(respond(200, {**listing, "items": [start]}))
    for path, document in _DISCOVERY.items():
        server.on("GET", f"{path}/?").answer(respond(200, document))
    server.on("GET", "/ready").answer(respond())
    server.on("GET", ".*").answer(_REFUSED)


def _state(number: int) -> dict[str, Any]:
    metadata = {"name": "changing", "namespace": "default", "uid": "one", "resourceVersion": str(_VERSION + number)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state": str(number)}}


def _kubeconfig(directory: Path, server: str) -> Path:
    path = directory / "coalescing.kubeconfig"
    path.write_text(json.dumps(kubeconfig_document(server, b"", {"token": "none"})))
    return path


def _resource(name: str, kind: str, *, namespaced: bool = True) -> dict[str, Any]:
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    return {"name": name, "singularName": kind.lower(), "kind": kind, "namespaced": namespaced, "verbs": verbs}


# kopf starts no watch before discovery shows namespaces and events.
_RESOURCES = [
    _resource("configmaps", "ConfigMap"),
    _resource("events", "Event"),
    _resource("namespaces", "Namespace", namespaced=False),
]
_DISCOVERY: dict[str, dict[str, Any]] = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": _RESOURCES},
}
SCENARIO = Scenario("coalescing", "101 changes of one object in one chunk, 10 ms a reconcile", False, contenders, run)
