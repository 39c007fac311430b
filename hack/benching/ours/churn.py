"""Ours: a controller that reads each ConfigMap that changes from the store."""

import asyncio
import os
import urllib.request

from attrs import Factory, define

from gpuruntime.control import Context, Manager, ManagerOptions, Result, Store, Watch, itself
from gpuruntime.kube import find
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey
from hack.benching.contending import Meter, Order, contend


@define
class MapReader:
    """Knows which objects it has seen, and which in their final state."""

    maps: Store[ConfigMap]
    objects: int
    final: str
    runs: int = 0
    known: set[ObjectKey] = Factory(set)
    final_ones: set[ObjectKey] = Factory(set)
    all_known: asyncio.Event = Factory(asyncio.Event)
    all_final: asyncio.Event = Factory(asyncio.Event)

    async def reconcile(self, key: ObjectKey, _context: Context) -> Result:
        self.runs += 1
        found = self.maps.get(key)
        if found is not None and key.name.startswith("churn-"):
            self._note(key, found.data["state"])
        return Result.done()

    def _note(self, key: ObjectKey, state: str) -> None:
        self.known.add(key)
        if len(self.known) == self.objects:
            self.all_known.set()
        if state == self.final:
            self.final_ones.add(key)
            if len(self.final_ones) == self.objects:
                self.all_final.set()


def say_ready() -> None:
    urllib.request.urlopen(os.environ["READY"]).close()


async def churn(order: Order) -> None:
    manager = Manager(find(), ManagerOptions("gpuruntime-bench"))
    maps = manager.cache.informer(ConfigMap)
    reader = MapReader(maps.store, order.objects, os.environ["FINAL"])
    manager.add_controller("churn", reader, [Watch(maps, itself())])
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await reader.all_known.wait()
        before = reader.runs
        meter = Meter()
        await asyncio.to_thread(say_ready)
        await reader.all_final.wait()
        meter.finish(reader.runs - before)


if __name__ == "__main__":
    contend({"churn": churn})
