"""A worker that ends: /drain, and the stop of the process."""

import asyncio
from pathlib import Path
from typing import Any

from gpuruntime.dispatch.protocol import Draining, Release
from tests.dispatch.sidecar.scripted_activator import PATIENCE
from tests.dispatch.sidecar.sidecar_scenes import sidecar_of


class Gated:
    """A function that returns when its gate opens."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()

    async def __call__(self, _payload: Any) -> str:
        self.started.set()
        await self.gate.wait()
        return "done"


async def test_drain_takes_no_more_work_and_answers_when_what_ran_is_committed(tmp_path: Path) -> None:
    function = Gated()
    async with sidecar_of(tmp_path, function, slots=2) as scene:
        activator = await scene.activator.ready_connection(2)
        run = await activator.run("inv-1")
        await function.started.wait()

        draining = asyncio.create_task(scene.ask("/drain"))
        await activator.receive(Draining)
        await activator.run("inv-2")
        released, _ = await activator.receive(Release)
        function.gate.set()
        result, _ = await activator.result()
        await activator.heartbeat_where(("lease-inv-1",))
        answered_early = draining.done()
        await activator.commit(run)
        answer = await draining

        assert released.id == "inv-2"
        assert result.state == "succeeded"
        assert not answered_early
        assert answer == (200, "ok\n")
        assert await scene.ask("/drain") == (200, "ok\n")
        assert await scene.ask("/readyz") == (200, "ok\n")


async def test_a_drain_goes_on_at_the_next_activator_and_after_its_caller_has_gone(tmp_path: Path) -> None:
    function = Gated()
    async with sidecar_of(tmp_path, function) as scene:
        activator = await scene.activator.ready_connection()
        run = await activator.run("inv-1")
        await function.started.wait()

        draining = asyncio.create_task(scene.ask("/drain"))
        await activator.receive(Draining)
        draining.cancel()
        activator.cut()
        second = await scene.activator.connection()
        function.gate.set()
        await second.result()
        await second.commit(run)

        assert second.hello.draining
        assert await scene.ask("/drain") == (200, "ok\n")


async def test_a_drain_that_takes_too_long_is_answered_with_503_and_the_run_goes_on(tmp_path: Path) -> None:
    function = Gated()
    async with sidecar_of(tmp_path, function, drain_seconds=0.05) as scene:
        activator = await scene.activator.ready_connection()
        await activator.run("inv-1")
        await function.started.wait()

        answer = await scene.ask("/drain")
        await activator.receive(Draining)
        function.gate.set()
        result, _ = await activator.result()

        assert answer == (503, "work is still running, or its results are not stored\n")
        assert result.state == "succeeded"


async def test_a_sidecar_that_is_stopped_ends_when_its_results_are_committed(tmp_path: Path) -> None:
    function = Gated()
    async with sidecar_of(tmp_path, function) as scene:
        activator = await scene.activator.ready_connection()
        run = await activator.run("inv-1")
        await function.started.wait()

        stopping = asyncio.create_task(scene.stop())
        await activator.receive(Draining)
        function.gate.set()
        await activator.result()
        await activator.heartbeat_where(("lease-inv-1",))
        ended_early = stopping.done()
        await activator.commit(run)
        await stopping
        await activator.until_closed()

        assert not ended_early


async def test_a_sidecar_that_is_stopped_does_not_wait_longer_than_allowed_and_closes_its_requests(
    tmp_path: Path,
) -> None:
    function = Gated()
    cancelled = asyncio.Event()

    async def noticing(payload: Any) -> None:
        try:
            await function(payload)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with sidecar_of(tmp_path, noticing, drain_seconds=0.05) as scene:
        activator = await scene.activator.ready_connection()
        await activator.run("inv-1")
        await function.started.wait()

        await scene.stop()
        async with asyncio.timeout(PATIENCE):
            await cancelled.wait()


async def test_without_an_activator_an_idle_sidecar_stops_at_once(tmp_path: Path) -> None:
    async with sidecar_of(tmp_path, Gated(), activator_url="ws://127.0.0.1:1/v1/worker", drain_seconds=600.0) as scene:
        await scene.ask_until(200, "/readyz")

        await scene.stop()
