"""Our contender: a cache of pods that keeps running whatever the server does."""

import asyncio

from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.storage import compact
from gpuruntime.kube import Transport, infer
from gpuruntime.kube.builtin.pods import Pod
from hack.benchmarks.contender_program import Meter, Order, run_contender


async def hotloop(order: Order) -> None:
    meter = Meter()
    async with (
        meter.watching_stalls(),
        Transport(infer(), user_agent="gpuruntime-bench") as transport,
        asyncio.TaskGroup() as group,
    ):
        cache = Cache(transport)
        cache.informer(compact(Pod))
        group.create_task(cache.run())
        await asyncio.sleep(order.seconds)
        meter.finish(0)


if __name__ == "__main__":
    run_contender({"hotloop": hotloop})
