"""Our contender: a reconcile of 10 ms, and the number of its runs for many simultaneous changes."""

import asyncio
import json

from attrs import Factory, define

from gpuruntime.control import Result, RunInfo, Store
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey
from hack.benchmarks.contender_program import Order, report_ready, run_contender
from hack.benchmarks.ours.following import following

_RECONCILE_SECONDS = 0.01


@define
class SlowReader:
    """Records the state at the start of each run."""

    maps: Store[ConfigMap]
    final: int
    seen: list[int] = Factory(list)
    began: asyncio.Event = Factory(asyncio.Event)
    ended: asyncio.Event = Factory(asyncio.Event)

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        found = self.maps.get(key)
        if found is not None:
            state = int(found.data["state"])
            self.seen.append(state)
            await asyncio.sleep(_RECONCILE_SECONDS)
            (self.ended if state == self.final else self.began).set()
        return Result.done()


async def coalescing(order: Order) -> None:
    async with following(lambda maps: SlowReader(maps, order.objects)) as reader:
        await reader.began.wait()
        await report_ready()
        await reader.ended.wait()
        await asyncio.sleep(order.seconds)
    if reader.seen[-1] != order.objects:
        raise RuntimeError(f"the last reconcile saw state {reader.seen[-1]}, expected the final one, {order.objects}")
    print(json.dumps({"reconciles": sum(state > 0 for state in reader.seen)}))


if __name__ == "__main__":
    run_contender({"coalescing": coalescing})
