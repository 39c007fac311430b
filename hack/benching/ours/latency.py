"""Ours: how old an event is when its reconcile starts. Processes of one machine share the monotonic clock."""

import asyncio
import json
import os
import statistics
import time
import urllib.request

from attrs import Factory, define

from gpuruntime.control import Context, Manager, ManagerOptions, Result, Store, Watch, itself
from gpuruntime.kube import find
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey
from hack.benching.contending import Order, contend


@define
class AgeReader:
    """Notes the age of each event but the first, which comes with the initial state."""

    maps: Store[ConfigMap]
    events: int
    ages: list[float] = Factory(list)
    began: asyncio.Event = Factory(asyncio.Event)
    ended: asyncio.Event = Factory(asyncio.Event)

    async def reconcile(self, key: ObjectKey, _context: Context) -> Result:
        now = time.monotonic()
        found = self.maps.get(key)
        if found is None:
            raise RuntimeError(f"{key} is not in the store")
        if self.began.is_set():
            self.ages.append(now - float(found.metadata.annotations["sent"]))
            if len(self.ages) == self.events:
                self.ended.set()
        self.began.set()
        return Result.done()


def say_ready() -> None:
    urllib.request.urlopen(os.environ["READY"]).close()


async def latency(order: Order) -> None:
    manager = Manager(find(), ManagerOptions("gpuruntime-bench"))
    maps = manager.cache.informer(ConfigMap)
    reader = AgeReader(maps.store, order.objects)
    manager.add_controller("age", reader, [Watch(maps, itself())])
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await reader.began.wait()
        await asyncio.to_thread(say_ready)
        await reader.ended.wait()
        manager.stop()
    hundredths = statistics.quantiles(reader.ages, n=100, method="inclusive")
    result = {"p50_ms": hundredths[49], "p99_ms": hundredths[98], "longest_ms": max(reader.ages)}
    print(json.dumps({name: seconds * 1000 for name, seconds in result.items()}))


if __name__ == "__main__":
    contend({"latency": latency})
