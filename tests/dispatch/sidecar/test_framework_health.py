"""Frameworks that start slowly, die and come back."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from gpuruntime.dispatch.protocol import Release
from tests.dispatch.sidecar.scripted_activator import PATIENCE, until
from tests.dispatch.sidecar.sidecar_scenes import quick, raw_server, sidecar
from tests.framework.framework_scenes import served

FUNCTION = """
import os, pathlib, signal, time

def hello(payload, context):
    if payload == "die":
        pathlib.Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if payload == "wait":
        pathlib.Path("waits").touch()
        time.sleep(600)
    return [payload, context.attempt]
"""


@asynccontextmanager
async def framework_process(directory: Path) -> AsyncIterator["asyncio.subprocess.Process"]:
    """A framework as the container of a worker runs it."""
    (directory / "hello.py").write_text(FUNCTION)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpuruntime.framework",
        "hello.py:hello",
        cwd=directory,
        env={
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SERVERLESS_FRAMEWORK_SOCKET_PATH": str(directory / "f.sock"),
            "SERVERLESS_CONCURRENCY": "2",
        },
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_until_its_framework_is_healthy_a_sidecar_lives_is_not_ready_and_offers_nothing(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async with sidecar(tmp_path, slots=3) as scene:
        first = await scene.activator.connection()
        lives, absent = await scene.ask("/healthz"), await scene.ask("/readyz")
        await first.run("early")
        released, _ = await first.receive(Release)
        async with served(tmp_path / "f.sock", lambda payload: payload, setup=gate.wait):
            starting = await scene.ask("/readyz")
            async with asyncio.timeout(PATIENCE):
                while "setup is running" not in starting[1]:
                    starting = await scene.ask("/readyz")
            gate.set()
            second = await scene.activator.ready_connection(3)
            ready = await scene.ask("/readyz")

    assert (lives, absent) == ((200, "ok\n"), (503, "the framework has not made its socket yet\n"))
    assert (starting[0], ready) == (503, (200, "ok\n"))
    assert (first.hello.slots, second.hello.slots) == (0, 3)
    assert released.id == "early"


async def test_a_framework_that_is_killed_in_a_run_fails_that_run_and_the_next_process_serves_on(
    tmp_path: Path,
) -> None:
    async with sidecar(tmp_path, slots=2) as scene:
        async with framework_process(tmp_path):
            activator = await scene.activator.ready_connection(2)
            await activator.run("inv-1", b'"die"')
            away = await scene.activator.connection()
            failed, _ = await away.result()
            unready = await scene.ask_until(503, "/readyz")
        async with framework_process(tmp_path):
            back = await scene.activator.ready_connection(2)
            await back.result()
            await back.run("inv-2", b'"again"', attempt=2)
            succeeded, body = await back.result()

    assert (tmp_path / "died").exists()
    assert (failed.state, failed.failure_class, failed.status_code) == ("failed", "framework_error", 502)
    assert failed.error.startswith("the framework ended the connection: ")
    assert away.hello.slots == 0
    assert unready.startswith("the framework does not answer: ")
    assert (succeeded.state, body) == ("succeeded", b'["again",2]')


async def test_all_runs_of_a_framework_that_is_killed_fail_and_none_is_lost(tmp_path: Path) -> None:
    async with sidecar(tmp_path, slots=2) as scene, framework_process(tmp_path) as process:
        activator = await scene.activator.ready_connection(2)
        await activator.run("inv-1", b'"wait"')
        await activator.run("inv-2", b'"wait"')
        await until((tmp_path / "waits").exists)

        process.send_signal(signal.SIGKILL)
        await process.wait()
        away = await scene.activator.connection()
        results = {result.id: result.state for result, _ in [await away.result(), await away.result()]}

    assert {lease.id for lease in away.hello.leases} == {"inv-1", "inv-2"}
    assert results == {"inv-1": "failed", "inv-2": "failed"}


async def test_a_run_that_finds_no_framework_goes_back_to_the_queue(tmp_path: Path) -> None:
    # The health is not asked again before the run: it finds out by itself.
    durations = quick(health_healthy=600)
    async with sidecar(tmp_path, durations=durations) as scene:
        async with served(tmp_path / "f.sock", lambda payload: payload):
            activator = await scene.activator.ready_connection()

        await activator.run("inv-1")
        released, _ = await activator.receive(Release)
        away = await scene.activator.connection()

    assert released.id == "inv-1"
    assert (away.hello.slots, away.hello.leases) == (0, ())


async def test_a_health_check_that_is_slow_now_and_then_costs_nothing(tmp_path: Path) -> None:
    checks = 0
    answered = asyncio.Event()

    async def health(_request: web.Request) -> web.Response:
        nonlocal checks
        checks += 1
        if checks % 3 == 2:
            await asyncio.Event().wait()
        if checks >= 8:
            answered.set()
        return web.Response()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await health(request)

    async with (
        raw_server(tmp_path / "f.sock", answer, health=health),
        sidecar(tmp_path, durations=quick(health_timeout=0.5, health_healthy=0.01), contract="raw") as scene,
    ):
        activator = await scene.activator.ready_connection()
        async with asyncio.timeout(PATIENCE):
            await answered.wait()

        assert not activator.closed.is_set()


async def test_a_framework_that_answers_no_health_check_is_not_healthy(tmp_path: Path) -> None:
    is_silent = False

    async def health(_request: web.Request) -> web.Response:
        if is_silent:
            await asyncio.Event().wait()
        return web.Response()

    async def answer(_request: web.Request) -> Any:
        return web.Response()

    async with (
        raw_server(tmp_path / "f.sock", answer, health=health),
        sidecar(tmp_path, durations=quick(health_timeout=0.2), contract="raw") as scene,
    ):
        activator = await scene.activator.ready_connection()
        is_silent = True
        await activator.until_closed()
        silent = await scene.activator.connection()
        reason = await scene.ask("/readyz")
        is_silent = False
        await scene.activator.ready_connection()

    assert silent.hello.slots == 0
    assert reason == (503, "the framework did not answer 3 health checks in a row\n")
