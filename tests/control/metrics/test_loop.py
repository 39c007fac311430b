import asyncio

import pytest
from prometheus_client import CollectorRegistry

from gpuruntime.control.metrics.loop import LoopCollector
from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog, Stall


async def test_stalls_are_exported() -> None:
    registry = CollectorRegistry()
    reported: asyncio.Queue[Stall] = asyncio.Queue()
    moment = 0.0
    async with LoopWatchdog(threshold=0.5, now=lambda: moment, on_stall=reported.put_nowait) as watchdog:
        LoopCollector(registry, watchdog)
        assert registry.get_sample_value("gpuruntime_loop_stalls_total") == 0

        moment = 3.25
        await reported.get()

    assert registry.get_sample_value("gpuruntime_loop_stalls_total") == 1
    assert registry.get_sample_value("gpuruntime_loop_longest_stall_seconds") == pytest.approx(3.0)
