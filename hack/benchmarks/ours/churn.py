"""Our contender: a controller that reads each changed ConfigMap from the store."""

import asyncio
import os

from attrs import Factory, define

from gpuruntime.control import Result, RunInfo, Store
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey
from hack.benchmarks.contender_program import Meter, Order, report_ready, run_contender
from hack.benchmarks.ours.following import following


@define
class MapReader:
    """Records which objects were seen, and which in their final state."""

    maps: Store[ConfigMap]
    objects: int
    final: str
    runs: int = 0
    known: set[ObjectKey] = Factory(set)
    final_ones: set[ObjectKey] = Factory(set)
    all_known: asyncio.Event = Factory(asyncio.Event)
    all_final: asyncio.Event = Factory(asyncio.Event)

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
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


async def churn(order: Order) -> None:
    async with following(lambda maps: MapReader(maps, order.objects, os.environ["FINAL"])) as reader:
        await reader.all_known.wait()
        before = reader.runs
        meter = Meter()
        await report_ready()
        await reader.all_final.wait()
        meter.finish(reader.runs - before)


if __name__ == "__main__":
    run_contender({"churn": churn})
