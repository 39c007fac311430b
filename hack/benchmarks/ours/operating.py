"""Our contender: the GPUUnit reconciler in a manager, until the bench ends it."""

import asyncio
import os
import time
from typing import Any

from attrs import frozen

from gpuruntime.aio.collector import collect_rarely
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Controller, Manager, ManagerOptions
from gpuruntime.desired.rendering import Rendering
from gpuruntime.kube import infer
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions, install_gpuunit
from hack.benchmarks.contender_program import Meter, Order, report_ready, resident_kb, run_contender, wait_until_done

_WORKERS = 16
_LOOK_SECONDS = 0.05
_QUIET_SECONDS = 1.0


@frozen
class Rest:
    """The last run before an idle second: its time, and the CPU time of the process until then."""

    runs: int
    cpu_seconds: float
    at: float


def runs_of(controller: Controller[Any]) -> int:
    return sum(controller.counters.results.values())


async def at_rest(controller: Controller[Any], runs: int) -> Rest:
    """Wait until a controller has made at least `runs` runs and was idle for a second."""
    last = Rest(0, time.process_time(), time.time())
    while True:
        busy = controller.counters.active_workers or controller.queue.counters.total_depth()
        if busy or runs_of(controller) != last.runs:
            last = Rest(runs_of(controller), time.process_time(), time.time())
        elif last.runs >= runs and time.time() - last.at >= _QUIET_SECONDS:
            return last
        await asyncio.sleep(_LOOK_SECONDS)


async def operator(order: Order) -> None:
    before = resident_kb()
    manager = Manager(infer(), ManagerOptions("gpu-runtime-operator"))
    controller = install_gpuunit(
        manager,
        GPUUnitOptions(
            # Units are Ready at once, as those of the other contenders are.
            Rendering(namespaces=Namespaces(("bench",), ()), min_ready_seconds=0),
            concurrency=_WORKERS,
        ),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await manager.cache.synced()
        rest = await at_rest(controller, order.objects)
        meter = Meter()
        await report_ready()
        await wait_until_done()
        meter.finish(
            runs_of(controller) - rest.runs,
            rest_seconds=rest.at - float(os.environ["BEGAN"]),
            rest_cpu_seconds=rest.cpu_seconds,
            rest_runs=rest.runs,
            rss_empty_kb=before,
        )


if __name__ == "__main__":
    # As `gpuruntime manager` does.
    collect_rarely()
    run_contender({"operator": operator})
