"""kopf, as an operator with a handler for the events of pods."""

# /// script
# dependencies = [
#     "aiohappyeyeballs==2.7.1",
#     "aiohttp==3.14.5",
#     "aiosignal==1.4.0",
#     "attrs==26.1.0",
#     "click==8.5.1",
#     "frozenlist==1.8.0",
#     "idna==3.20",
#     "iso8601==2.1.0",
#     "jsonpatch==1.46",
#     "jsonpointer==3.11",
#     "kopf==1.45.2",
#     "multidict==7.2.1",
#     "propcache==0.5.4",
#     "python-json-logger==4.2.0",
#     "PyYAML==6.0.3",
#     "typing_extensions==4.16.0",
#     "yarl==1.25.1",
# ]
# [tool.benching]
# imports = ["kopf"]
# note = "event handler"
# ///

import asyncio
import logging
from typing import Any

import kopf  # type: ignore[import-not-found]  # it is only in the environment of this script

from hack.benching.contending import Meter, Order, contend


async def sync(order: Order) -> None:
    known: set[str] = set()
    all_known = asyncio.Event()

    async def handler(*, uid: str, **_: Any) -> None:
        known.add(uid)
        if len(known) == order.objects:
            all_known.set()

    meter = Meter()
    async with meter.watching_stalls(), asyncio.TaskGroup() as group:
        group.create_task(_operate(handler))
        await all_known.wait()
        meter.finish(len(known))


async def hotloop(order: Order) -> None:
    async def handler(**_: Any) -> None:
        pass

    meter = Meter()
    async with meter.watching_stalls(), asyncio.TaskGroup() as group:
        group.create_task(_operate(handler))
        await asyncio.sleep(order.seconds)
        meter.finish(0)


async def _operate(handler: Any) -> None:
    registry = kopf.OperatorRegistry()
    kopf.on.event("pods", registry=registry)(handler)
    kopf.on.login(registry=registry)(_login)
    await kopf.operator(registry=registry, standalone=True, clusterwide=True)
    raise RuntimeError("the operator ended by itself")


def _login(**given: Any) -> Any:
    return kopf.login_with_kubeconfig(**given)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    contend({"sync": sync, "hotloop": hotloop})
