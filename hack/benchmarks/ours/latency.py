"""Our contender: the age of an event when its reconcile starts. Processes of one machine share the monotonic clock."""

import asyncio
import json
import statistics
import time

from attrs import Factory, define

from gpuruntime.control import Result, RunInfo, Store
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey
from hack.benchmarks.contender_program import Order, report_ready, run_contender
from hack.benchmarks.ours.following import following


@define
class AgeReader:
    """Records the age of each event except the first, which is part of the initial list."""

    maps: Store[ConfigMap]
    events: int
    ages: list[float] = Factory(list)
    began: asyncio.Event = Factory(asyncio.Event)
    ended: asyncio.Event = Factory(asyncio.Event)

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
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


async def latency(order: Order) -> None:
    async with following(lambda maps: AgeReader(maps, order.objects)) as reader:
        await reader.began.wait()
        await report_ready()
        await reader.ended.wait()
    hundredths = statistics.quantiles(reader.ages, n=100, method="inclusive")
    result = {"p50_ms": hundredths[49], "p99_ms": hundredths[98], "longest_ms": max(reader.ages)}
    print(json.dumps({name: seconds * 1000 for name, seconds in result.items()}))


if __name__ == "__main__":
    run_contender({"latency": latency})
