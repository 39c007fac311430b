"""Ours: a reconcile of 10 ms, and how often it runs for many changes that come at once."""

import asyncio
import json
import os
import urllib.request

from attrs import Factory, define

from gpuruntime.control import Context, Manager, ManagerOptions, Result, Store, Watch, itself
from gpuruntime.kube import find
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey
from hack.benching.contending import Order, contend

_RECONCILE_SECONDS = 0.01


@define
class SlowReader:
    """Notes the state that each run begins with."""

    maps: Store[ConfigMap]
    final: int
    seen: list[int] = Factory(list)
    began: asyncio.Event = Factory(asyncio.Event)
    ended: asyncio.Event = Factory(asyncio.Event)

    async def reconcile(self, key: ObjectKey, _context: Context) -> Result:
        found = self.maps.get(key)
        if found is not None:
            state = int(found.data["state"])
            self.seen.append(state)
            await asyncio.sleep(_RECONCILE_SECONDS)
            (self.ended if state == self.final else self.began).set()
        return Result.done()


def say_ready() -> None:
    urllib.request.urlopen(os.environ["READY"]).close()


async def coalescing(order: Order) -> None:
    manager = Manager(find(), ManagerOptions("gpuruntime-bench"))
    maps = manager.cache.informer(ConfigMap)
    reader = SlowReader(maps.store, order.objects)
    manager.add_controller("slow", reader, [Watch(maps, itself())])
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await reader.began.wait()
        await asyncio.to_thread(say_ready)
        await reader.ended.wait()
        await asyncio.sleep(order.seconds)
        manager.stop()
    if reader.seen[-1] != order.objects:
        raise RuntimeError(f"the last reconcile saw state {reader.seen[-1]}, expected the final one, {order.objects}")
    print(json.dumps({"reconciles": sum(state > 0 for state in reader.seen)}))


if __name__ == "__main__":
    contend({"coalescing": coalescing})
