"""lightkube, which has no cache: a plain list, and a watch that retries whatever happens."""

# /// script
# dependencies = [
#     "anyio==4.16.0",
#     "h11==0.16.0",
#     "h2==4.4.1",
#     "hpack==4.2.0",
#     "httpcore2==2.16.0",
#     "httpx2==2.16.0",
#     "hyperframe==6.1.0",
#     "idna==3.20",
#     "lightkube==1.0.1",
#     "lightkube-models==1.37.0.8",
#     "msgspec==0.22.0",
#     "PyYAML==6.0.3",
#     "truststore==0.10.5",
#     "typing_extensions==4.16.0",
#     "wsproto==1.3.2",
# ]
# [tool.bench]
# imports = ["lightkube", "lightkube.resources.core_v1"]
# note = "plain list and watch, no cache"
# ///

import asyncio

from lightkube import ALL_NS, AsyncClient  # type: ignore[import-not-found]  # only in the environment of this script
from lightkube.resources.core_v1 import Pod  # type: ignore[import-not-found]  # as above
from lightkube.types import on_error_retry  # type: ignore[import-not-found]  # as above

from hack.benchmarks.contender_program import Meter, Order, run_contender


async def sync(order: Order) -> None:
    meter = Meter()
    async with meter.watching_stalls():
        pods = [pod async for pod in AsyncClient().list(Pod, namespace=ALL_NS)]
        if len(pods) != order.objects:
            raise RuntimeError(f"the list holds {len(pods)} pods, expected {order.objects}")
        meter.finish(len(pods))


async def hotloop(order: Order) -> None:
    async def watch() -> None:
        async for _event in AsyncClient().watch(Pod, namespace=ALL_NS, on_error=on_error_retry):
            pass
        raise RuntimeError("the watch ended silently")

    meter = Meter()
    async with meter.watching_stalls(), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await asyncio.sleep(order.seconds)
        meter.finish(0)


if __name__ == "__main__":
    run_contender({"sync": sync, "hotloop": hotloop})
