"""The CPU cost of an update: from "all objects known" to "all seen in their final state".

The updates come from this process, eight at a time, as fast as the API server accepts them. kopf runs create and update
handlers, as its users write them; its bare event handler keeps no state and is not comparable.
"""

import asyncio
import itertools
from collections.abc import Iterator

from attrs import evolve, frozen

from gpuruntime.kube import Client, KubeError, MergePatch, Transport, from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import FrozenDict, ObjectMeta
from gpuruntime.testing.scripted import ScriptedServer, respond
from hack.benchmarks.alternating import Measure, alternate
from hack.benchmarks.catalogue import GO, Catalogue, loops
from hack.benchmarks.contenders import Contender, Failure, Outcome, Reading
from hack.benchmarks.creating import ObjectsError
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import LibraryBench, Scenario

__all__ = ["SCENARIO"]

_OBJECTS, _QUICK_OBJECTS = 500, 100
_ROUNDS = 10
_WRITERS = 8
_LIMIT_SECONDS = 180.0
_NAMESPACE = "default"
_KOPF = "kopf"


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    go = catalogue.go("cache, source and queue, one worker")
    peers = (peer for peer in catalogue.peers() if peer.name == _KOPF)
    kopf = (evolve(peer, note=peer.note.replace("event handler", "create and update handlers")) for peer in peers)
    return (go, *catalogue.ours("churn.py", loops()), *kopf)


async def run(bench: LibraryBench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    if bench.kubeconfig is None:
        raise ObjectsError("churn needs a cluster, and got no kubeconfig")
    objects = _QUICK_OBJECTS if bench.quick else _OBJECTS
    tokens = itertools.count(1)
    async with Transport(from_kubeconfig(bench.kubeconfig), user_agent="gpuruntime-bench") as transport:
        maps = _Maps(Client(transport, field_manager="gpuruntime-bench"), objects)
        bench.say(f"creating {objects} ConfigMaps")
        await maps.create()

        async def once(contender: Contender) -> Outcome:
            return await _churn(bench, maps, contender, f"run-{next(tokens)}")

        results = await alternate(participants, bench.repeat, once, bench.say)
    return tuple(results.figure(measure) for measure in _measures(objects * _ROUNDS))


def _measures(events: int) -> tuple[Measure, ...]:
    def cpu(reading: Reading) -> float:
        return reading["cpu_seconds"] / events * 1e6

    bars = tuple(bar for loop in loops() for bar in (Bar(loop.contender, 3.0, GO), Bar(loop.contender, 1 / 5, _KOPF)))
    return (
        Measure("CPU of an update", "us", cpu, bars),
        Measure("reconciles of an update", "runs", lambda reading: reading["objects"] / events),
        Measure("updates", "a second", lambda reading: events / reading["seconds"]),
    )


@frozen
class _Maps:
    """The ConfigMaps that are updated."""

    client: Client
    objects: int

    async def create(self) -> None:
        try:
            for number in range(self.objects):
                metadata = ObjectMeta(name=_name(number), namespace=_NAMESPACE)
                await self.client.create(ConfigMap(metadata, data=FrozenDict({"state": "new"})))
        except KubeError as error:
            raise ObjectsError(f"the ConfigMaps could not be created: {error}") from error

    async def change(self, final: str) -> Failure | None:
        """Update all of them in turn; the last state of each is `final`."""
        states = [*(f"{final}-{number}" for number in range(1, _ROUNDS)), final]
        try:
            for state in states:
                numbers = iter(range(self.objects))
                await asyncio.gather(*(self._write(numbers, state) for _ in range(_WRITERS)))
        except KubeError as error:
            return Failure(f"the updates failed: {error}")
        return None

    async def _write(self, numbers: Iterator[int], state: str) -> None:
        for number in numbers:
            await self.client.patch(ConfigMap, _name(number), _NAMESPACE, MergePatch({"data": {"state": state}}))


def _name(number: int) -> str:
    return f"churn-{number}"


async def _churn(bench: LibraryBench, maps: _Maps, contender: Contender, token: str) -> Outcome:
    async with ScriptedServer() as server:
        server.on("GET", "/ready").answer(respond())

        async def change() -> Failure | None:
            await server.seen(1, "GET", "/ready")
            return await maps.change(token)

        environment = {"KUBECONFIG": str(bench.kubeconfig), "READY": f"{server.url}/ready", "FINAL": token}
        arguments = ("churn", "--objects", str(maps.objects))
        running = asyncio.create_task(bench.runner.run(contender, arguments, environment, _LIMIT_SECONDS))
        changing = asyncio.create_task(change())
        try:
            await asyncio.wait([running, changing], return_when=asyncio.FIRST_COMPLETED)
            failure = changing.result() if changing.done() else None
            return failure or await running
        finally:
            running.cancel()
            changing.cancel()
            await asyncio.wait([running, changing])


SCENARIO = Scenario("churn", "Updates of ConfigMaps, followed by a controller", True, contenders, run)
