"""Our contender: keys that pass through a workqueue whose metrics are read at the end."""

import json
import time

from prometheus_client import CollectorRegistry

from gpuruntime.control import WorkQueue
from gpuruntime.control.metrics.queues import QueueCollector
from gpuruntime.meta import ObjectKey
from hack.benchmarks.contender_program import Order, run_contender


async def pass_through(count: int, waiting: int) -> float:
    """The microseconds of one add, get and done in a queue that always holds `waiting` keys."""
    registry = CollectorRegistry()
    queue: WorkQueue[ObjectKey] = WorkQueue("bench")
    QueueCollector(registry).add(queue)
    for number in range(waiting):
        queue.add(ObjectKey("default", f"object-{number}"))
    began = time.perf_counter()
    for _ in range(count):
        key = await queue.get()
        queue.done(key)
        queue.add(key)
    seconds = time.perf_counter() - began
    counted = registry.get_sample_value("workqueue_adds_total", {"name": "bench", "controller": "bench"})
    if counted != waiting + count:
        raise RuntimeError(f"the metrics counted {counted} adds, expected {waiting + count}")
    return seconds / count * 1e6


async def queue(order: Order) -> None:
    print(
        json.dumps(
            {"single_us": await pass_through(order.objects, 1), "deep_us": await pass_through(order.objects, 1000)}
        )
    )


if __name__ == "__main__":
    run_contender({"queue": queue})
