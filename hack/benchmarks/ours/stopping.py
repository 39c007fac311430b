"""Our contender: an idle manager embedded in another program's loop, which is stopped."""

import asyncio
import json
import time
import uuid

import aiohttp
from attrs import frozen

from gpuruntime.control import (
    Election,
    HttpAddress,
    Manager,
    ManagerOptions,
    Result,
    RunInfo,
    Watch,
    compact,
    enqueue_object,
)
from gpuruntime.kube import infer
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from hack.benchmarks.contender_program import Order, run_contender

_TICK_SECONDS = 0.01
_ALIVE_SECONDS = 5.0


@frozen
class Passive:
    """A reconciler that does nothing."""

    async def reconcile(self, _key: ObjectKey, _context: RunInfo) -> Result:
        return Result.done()


async def tick(ticks: asyncio.Queue[float]) -> None:
    """A task of the other program."""
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        ticks.put_nowait(time.perf_counter())


async def until_quiet(manager: Manager, pods: int, seconds: float) -> None:
    """Wait until the caches are complete, the manager is ready and leads, and some idle time has passed."""
    await manager.cache.synced()
    known = {str(informer.scope.storage.kind): len(informer.store) for informer in manager.cache.informers}
    if len(known) != 3 or max(known.values()) < pods:
        raise RuntimeError(f"the caches hold {known}, expected three kinds and {pods} pods")
    await asyncio.sleep(seconds)
    if manager.election is None or not manager.election.is_leader:
        raise RuntimeError("the manager does not lead: expected it to have won an election with nobody else in it")


async def stopping(order: Order) -> None:
    election = Election("default", f"bench-{uuid.uuid4().hex[:8]}")
    manager = Manager(infer(), ManagerOptions("gpuruntime-bench", http=HttpAddress(), election=election))
    pods, maps = manager.cache.informer(compact(Pod)), manager.cache.informer(ConfigMap)
    manager.cache.informer(Secret)
    manager.add_controller("pods", Passive(), [Watch(pods, enqueue_object())])
    manager.add_controller("maps", Passive(), [Watch(maps, enqueue_object())])
    ticks: asyncio.Queue[float] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        foreign = group.create_task(tick(ticks))
        running = group.create_task(manager.run())
        await manager.sites[0].listening()
        async with aiohttp.ClientSession(manager.sites[0].bound.url) as probes:
            await until_quiet(manager, order.objects, order.seconds)
            # A prober keeps its connection open, which must not delay the stop.
            async with probes.get("/readyz") as answer:
                answer.raise_for_status()
            began = time.perf_counter()
            manager.stop()
            await running
            ended = time.perf_counter()
        async with asyncio.timeout(_ALIVE_SECONDS):
            while not foreign.done() and await ticks.get() < ended:
                pass
        if foreign.done():
            raise RuntimeError("the foreign task was ended by the stop of the manager")
        foreign.cancel()
    print(json.dumps({"stop_seconds": ended - began}))


if __name__ == "__main__":
    run_contender({"stopping": stopping})
