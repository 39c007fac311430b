"""Our contender: the initial sync of a cache of pods, compact or projected."""

import asyncio
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import compact, projected
from gpuruntime.kube import Transport, infer
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.forms import as_form
from hack.benchmarks.contender_program import Meter, Order, run_contender


@frozen
class Placement:
    """The fields of a pod that a scheduler would keep."""

    namespace: str
    name: str
    uid: str
    version: str
    phase: str
    node: str


def placement(raw: Mapping[str, Any]) -> Placement:
    metadata = raw["metadata"]
    return Placement(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata["resourceVersion"],
        raw["status"].get("phase", ""),
        raw["spec"].get("nodeName", ""),
    )


def informer_of(cache: Cache, form: str) -> Informer[Any]:
    return cache.informer(compact(Pod) if form == "bytes" else projected(as_form(Pod).kind, placement))


async def sync(order: Order) -> None:
    meter = Meter()
    async with (
        meter.watching_stalls(),
        Transport(infer(), user_agent="gpuruntime-bench") as transport,
        asyncio.TaskGroup() as group,
    ):
        cache = Cache(transport)
        informer = informer_of(cache, order.form)
        group.create_task(cache.run())
        await cache.synced()
        known = len(informer.store)
        if known != order.objects:
            raise RuntimeError(f"the cache holds {known} pods, expected {order.objects}")
        meter.finish(known)


if __name__ == "__main__":
    run_contender({"sync": sync})
