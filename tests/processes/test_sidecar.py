"""`gpuruntime sidecar` as the container of a worker runs it: environment, probes, log and SIGTERM."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpuruntime.dispatch.protocol import Draining
from tests.dispatch.sidecar.scripted_activator import PATIENCE, scripted_activator
from tests.framework.framework_scenes import served


@asynccontextmanager
async def sidecar_process(directory: Path, url: str, **variables: str) -> AsyncIterator["asyncio.subprocess.Process"]:
    (directory / "token").write_text("token-1")
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SERVERLESS_ACTIVATOR_URL": url,
        "SERVERLESS_TOKEN_FILE": str(directory / "token"),
        "SERVERLESS_FUNCTION": "echo",
        "SERVERLESS_NAMESPACE": "team",
        "SERVERLESS_WORKER": "echo-1",
        "SERVERLESS_REVISION": "rev-7",
        "SERVERLESS_FRAMEWORK_SOCKET": str(directory / "f.sock"),
        "SERVERLESS_HEALTH_PORT": "0",
        "SERVERLESS_DRAIN_SECONDS": "60",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpuruntime.processes.command",
        "sidecar",
        env=environment | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ended(process: "asyncio.subprocess.Process") -> tuple[int | None, str]:
    async with asyncio.timeout(PATIENCE):
        _, errors = await process.communicate()
    return process.returncode, errors.decode()


async def test_a_process_runs_an_invocation_and_ends_with_0_after_sigterm_when_its_result_is_committed(
    tmp_path: Path,
) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    async def gated(payload: str) -> str:
        started.set()
        await gate.wait()
        return payload

    async with (
        scripted_activator() as activator,
        served(tmp_path / "f.sock", gated),
        sidecar_process(tmp_path, activator.url) as process,
    ):
        connection = await activator.ready_connection()
        run = await connection.run(payload=b'"you"')
        await started.wait()
        process.send_signal(signal.SIGTERM)
        await connection.receive(Draining)
        gate.set()
        result, body = await connection.result()
        await connection.commit(run)
        code, log = await ended(process)

    assert (connection.token, connection.hello.revision) == ("Bearer token-1", "rev-7")
    assert (result.state, body, code) == ("succeeded", b"you", 0)
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"connected", "draining"} <= {line["message"] for line in lines}
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)


async def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def endless(_payload: None) -> None:
        started.set()
        await asyncio.Event().wait()

    async with (
        scripted_activator() as activator,
        served(tmp_path / "f.sock", endless),
        sidecar_process(tmp_path, activator.url) as process,
    ):
        connection = await activator.ready_connection()
        await connection.run()
        await started.wait()
        process.send_signal(signal.SIGTERM)
        await connection.receive(Draining)
        process.send_signal(signal.SIGTERM)
        code, _ = await ended(process)

    assert code == -signal.SIGTERM


async def test_a_killed_process_leaves_its_lease_to_the_activator_and_the_function_is_cancelled(
    tmp_path: Path,
) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def endless(_payload: None) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with scripted_activator() as activator, served(tmp_path / "f.sock", endless):
        async with sidecar_process(tmp_path, activator.url) as process:
            connection = await activator.ready_connection()
            await connection.run()
            await started.wait()
            process.kill()
            await connection.until_closed()
            async with asyncio.timeout(PATIENCE):
                await cancelled.wait()
        async with sidecar_process(tmp_path, activator.url):
            again = await activator.ready_connection()

    assert again.hello.leases == ()


async def test_a_taken_port_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with sidecar_process(tmp_path, "ws://127.0.0.1:1", SERVERLESS_HEALTH_PORT=str(port)) as process:
            code, errors = await ended(process)

    assert code == 1
    assert errors.startswith("error: ")
    assert str(port) in errors


def test_the_process_imports_no_client_of_kubernetes_or_nats() -> None:
    seen = subprocess.run(
        [sys.executable, "-c", "import sys, gpuruntime.processes.sidecar; print(*sys.modules)"],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    large = ("gpuruntime.kube", "gpuruntime.bus", "gpuruntime.control", "gpuruntime.service", "nats", "yaml")
    assert [name for name in seen if name in large or name == "prometheus_client"] == []
    assert "gpuruntime.dispatch.sidecar.service" in seen
