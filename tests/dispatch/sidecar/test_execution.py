"""How a run ends before its function does: deadline, cancellation, a lost lease; and a framework that does not care."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.dispatch.protocol import Release
from tests.dispatch.sidecar.scripted_activator import PATIENCE
from tests.dispatch.sidecar.sidecar_scenes import quick, sidecar, sidecar_of
from tests.framework.framework_scenes import served


class Watched:
    """An async function that waits until it is cancelled, and says so."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, _payload: Any) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await event.wait()


async def test_at_its_deadline_a_run_expires_and_the_function_is_cancelled(tmp_path: Path) -> None:
    function = Watched()
    async with sidecar_of(tmp_path, function) as scene:
        activator = await scene.activator.ready_connection()

        before = time.monotonic()
        await activator.run(timeout_millis=300)
        result, _ = await activator.result()
        taken = time.monotonic() - before
        await soon(function.cancelled)

        assert (result.state, result.failure_class) == ("expired", "framework_timeout")
        assert result.error == "the function did not return within 0.3 seconds"
        assert taken >= 0.3
        assert result.execution_millis <= taken * 1000


async def test_a_cancelled_run_ends_as_cancelled_and_the_function_is_cancelled(tmp_path: Path) -> None:
    function = Watched()
    async with sidecar_of(tmp_path, function) as scene:
        activator = await scene.activator.ready_connection()

        run = await activator.run()
        await soon(function.started)
        await activator.cancel(run, "a caller cancelled it")
        result, _ = await activator.result()
        await soon(function.cancelled)

        assert (result.state, result.failure_class) == ("cancelled", "cancelled_by_caller")
        assert result.error == "a caller cancelled it"


async def test_a_run_that_ended_before_its_cancellation_keeps_its_result(tmp_path: Path) -> None:
    async with sidecar_of(tmp_path, lambda payload: payload) as scene:
        activator = await scene.activator.ready_connection()

        run = await activator.run("inv-1", b'"one"')
        first, _ = await activator.result()
        await activator.cancel(run)
        await activator.run("inv-2", b'"two"')
        second, _ = await activator.result()

        assert (first.id, first.state) == ("inv-1", "succeeded")
        assert (second.id, second.state) == ("inv-2", "succeeded")


async def test_the_next_run_waits_for_the_end_of_a_cancelled_one_and_can_be_cancelled_meanwhile(
    tmp_path: Path,
) -> None:
    running, gate = threading.Semaphore(0), threading.Event()
    payloads = []

    def stubborn(payload: Any) -> None:
        payloads.append(payload)
        running.release()
        gate.wait(PATIENCE)

    async with sidecar_of(tmp_path, stubborn) as scene:
        activator = await scene.activator.ready_connection()
        first = await activator.run("inv-1", b"1")
        await asyncio.to_thread(running.acquire, timeout=PATIENCE)
        await activator.cancel(first)
        await activator.result()

        second = await activator.run("inv-2", b"2")
        await activator.cancel(second)
        cancelled, _ = await activator.result()
        await activator.run("inv-3", b"3")
        gate.set()
        third, _ = await activator.result()

        assert (cancelled.id, cancelled.state) == ("inv-2", "cancelled")
        assert (third.id, third.state) == ("inv-3", "succeeded")
        assert payloads == [1, 3]


async def test_a_framework_that_does_not_end_a_cancelled_run_has_to_be_restarted_and_gets_no_work(
    tmp_path: Path,
) -> None:
    gate = threading.Event()

    def stubborn(payload: Any) -> None:
        if payload:
            gate.wait(PATIENCE)

    async with sidecar_of(tmp_path, stubborn, durations=quick(cancel_grace=0.1)) as scene:
        activator = await scene.activator.ready_connection()
        healthy = await scene.ask("/livez")

        await activator.run("inv-1", b"1", timeout_millis=100)
        result, _ = await activator.result()
        waiting = await activator.run("inv-2")
        released, _ = await activator.receive(Release)
        stuck = await scene.ask_until(503, "/livez")
        unready = await scene.ask("/readyz")
        again = await scene.activator.connection()
        gate.set()
        await scene.ask_until(200, "/livez")
        recovered = await scene.activator.ready_connection()

        assert healthy == (200, "ok\n")
        assert result.state == "expired"
        assert stuck == "the framework does not end cancelled invocations: inv-1\n"
        assert unready[0] == 503
        assert again.hello.slots == 0
        assert released.lease == waiting.lease
        assert recovered.hello.slots == 1


async def test_a_run_whose_lease_is_not_confirmed_is_cancelled_at_the_framework_and_forgotten(tmp_path: Path) -> None:
    function = Watched()
    async with sidecar_of(tmp_path, function, durations=quick(lease=0.5)) as scene:
        activator = await scene.activator.ready_connection()

        await activator.run(abort_on_lost_lease=True)
        await soon(function.cancelled)
        await activator.heartbeat_where(())
        await activator.run("inv-2", timeout_millis=1)
        result, _ = await activator.result()

        assert result.id == "inv-2"


@pytest.mark.parametrize("how", ["confirmed", "welcome"])
async def test_a_lost_lease_ends_its_run_without_a_result(how: str, tmp_path: Path) -> None:
    function = Watched()
    async with sidecar_of(tmp_path, function) as scene:
        activator = await scene.activator.ready_connection()

        run = await activator.run()
        await soon(function.started)
        if how == "confirmed":
            await activator.confirm(lost=(run.lease,))
        else:
            await activator.close()
            activator = await scene.activator.connection(lost=(run.lease,))
        await soon(function.cancelled)
        await activator.heartbeat_where(())


async def test_a_run_that_the_framework_refuses_to_start_goes_back(tmp_path: Path) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    async def waiting(_payload: Any) -> None:
        started.set()
        await gate.wait()

    async with served(tmp_path / "f.sock", waiting, concurrency=2) as framework, framework.connected() as other:
        running = asyncio.create_task(other.invoke("inv-1"))
        await soon(started)
        async with sidecar(tmp_path, slots=2) as scene:
            activator = await scene.activator.ready_connection(2)

            await activator.run("inv-1")
            released, _ = await activator.receive(Release)
            gate.set()

            assert released.id == "inv-1"
            assert (await running)["statusCode"] == 200
