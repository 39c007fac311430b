import asyncio
import logging

import pytest
from attrs import evolve

from gpuruntime.api.rest.health import Health
from gpuruntime.processes.wiring.status_reporter import StatusReporter
from gpuruntime.testing.virtual_time import run_virtual

WELL = Health("2026-01-01T00:00:00Z", 5, True, 4, 3, 2, 7, 6, 1, 32, 32, (), 0.5)


def test_the_state_is_logged_once_an_interval_with_its_figures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    states = iter([WELL, evolve(WELL, kubernetes_connected=False, kube_error="it is away")])

    async def health() -> Health:
        return next(states)

    async def story() -> None:
        task = asyncio.create_task(StatusReporter(health, 30.0).run())
        await asyncio.sleep(75)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(story())

    first, second = caplog.records
    assert (first.message, first.levelname, second.levelname) == ("runtime status", "INFO", "WARNING")
    assert (vars(first)["ready_nodes"], vars(first)["available_stock_units"]) == (3, 6)
    assert vars(second)["error"] == "it is away"
