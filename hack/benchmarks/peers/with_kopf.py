"""kopf, as an operator with a handler for the events of pods, or of ConfigMaps."""

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
# [tool.bench]
# imports = ["kopf"]
# note = "event handler"
# ///

import asyncio
import json
import logging
import os
from typing import Any

import kopf  # type: ignore[import-not-found]  # it is only in the environment of this script

from hack.benchmarks.contender_program import Meter, Order, report_ready, run_contender

_RECONCILE_SECONDS = 0.01


async def sync(order: Order) -> None:
    known: set[str] = set()
    all_known = asyncio.Event()

    async def handler(*, uid: str, **_: Any) -> None:
        known.add(uid)
        if len(known) == order.objects:
            all_known.set()

    meter = Meter()
    async with meter.watching_stalls(), asyncio.TaskGroup() as group:
        group.create_task(_operate("pods", handler))
        await all_known.wait()
        meter.finish(len(known))


async def hotloop(order: Order) -> None:
    async def handler(**_: Any) -> None:
        pass

    meter = Meter()
    async with meter.watching_stalls(), asyncio.TaskGroup() as group:
        group.create_task(_operate("pods", handler))
        await asyncio.sleep(order.seconds)
        meter.finish(0)


async def coalescing(order: Order) -> None:
    seen: list[int] = []
    began, ended = asyncio.Event(), asyncio.Event()

    async def handler(*, body: Any, **_: Any) -> None:
        state = int(body["data"]["state"])
        seen.append(state)
        await asyncio.sleep(_RECONCILE_SECONDS)
        (ended if state == order.objects else began).set()

    async with asyncio.TaskGroup() as group:
        operating = group.create_task(_operate("configmaps", handler))
        await began.wait()
        await report_ready()
        await ended.wait()
        await asyncio.sleep(order.seconds)
        operating.cancel()
    if seen[-1] != order.objects:
        raise RuntimeError(f"the last call saw state {seen[-1]}, expected the final one, {order.objects}")
    print(json.dumps({"reconciles": sum(state > 0 for state in seen)}))


async def churn(order: Order) -> None:
    final = os.environ["FINAL"]
    known: set[str] = set()
    final_ones: set[str] = set()
    all_known, all_final = asyncio.Event(), asyncio.Event()
    calls = 0

    async def handler(*, name: str, body: Any, **_: Any) -> None:
        nonlocal calls
        calls += 1
        if not name.startswith("churn-"):
            return
        known.add(name)
        if len(known) == order.objects:
            all_known.set()
        if body["data"]["state"] == final:
            final_ones.add(name)
            if len(final_ones) == order.objects:
                all_final.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(_operate("configmaps", handler, kopf.on.resume, kopf.on.create, kopf.on.update))
        await all_known.wait()
        before = calls
        meter = Meter()
        await report_ready()
        await all_final.wait()
        meter.finish(calls - before)


async def _operate(resource: str, handler: Any, *decorators: Any) -> None:
    registry = kopf.OperatorRegistry()
    for decorator in decorators or (kopf.on.event,):
        decorator(resource, registry=registry)(handler)
    kopf.on.login(registry=registry)(_login)
    await kopf.operator(registry=registry, standalone=True, clusterwide=True)
    raise RuntimeError("the operator exited")


def _login(**given: Any) -> Any:
    return kopf.login_with_kubeconfig(**given)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    run_contender({"sync": sync, "hotloop": hotloop, "coalescing": coalescing, "churn": churn})
