"""kr8s, which has no cache: a plain list, and a plain watch."""

# /// script
# dependencies = [
#     "anyio==4.16.0",
#     "cachetools==8.0.0",
#     "certifi==2026.10.18",
#     "cffi==2.1.1",
#     "cryptography==50.0.2",
#     "exceptiongroup==1.3.1",
#     "h11==0.16.0",
#     "httpcore==1.0.9",
#     "httpx==0.28.1",
#     "httpx-ws==0.9.0",
#     "idna==3.20",
#     "kr8s==0.20.15",
#     "packaging==26.3",
#     "pycparser==3.12",
#     "python-box==7.4.1",
#     "python-jsonpath==2.2.2",
#     "PyYAML==6.0.3",
#     "typing_extensions==4.16.0",
#     "wsproto==1.3.2",
# ]
# [tool.bench]
# imports = ["kr8s.asyncio"]
# note = "plain list and watch, no cache"
# ///

import asyncio

import kr8s.asyncio  # type: ignore[import-not-found]  # it is only in the environment of this script

from hack.benchmarks.contender_program import Meter, Order, run_contender


async def sync(order: Order) -> None:
    meter = Meter()
    async with meter.watching_stalls():
        pods = [pod async for pod in kr8s.asyncio.get("pods", namespace=kr8s.ALL)]
        if len(pods) != order.objects:
            raise RuntimeError(f"the list holds {len(pods)} pods, expected {order.objects}")
        meter.finish(len(pods))


async def hotloop(order: Order) -> None:
    async def watch() -> None:
        async for _event in kr8s.asyncio.watch("pods", namespace=kr8s.ALL):
            pass
        raise RuntimeError("the watch ended silently")

    meter = Meter()
    async with meter.watching_stalls(), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await asyncio.sleep(order.seconds)
        meter.finish(0)


if __name__ == "__main__":
    run_contender({"sync": sync, "hotloop": hotloop})
