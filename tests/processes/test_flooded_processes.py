"""Connections that send nothing lock no caller out: each process as it is started, with 256 descriptors."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from typing import Final

import aiohttp
import pytest
from attrs import frozen

FLOOD, HALF_SENT = 500, b"POST /api/v1/stocks HTTP/1.1\r\nHost: local"
FLOODER, OTHER = "127.0.0.1", "127.0.0.2"
OPEN_FILES: Final = 256


@frozen
class Process:
    """A process without a cluster: where its API and its probes are."""

    api: str
    operations: str


@asynccontextmanager
async def runtime_api(**further: str) -> AsyncIterator[Process]:
    api, operations = (f"127.0.0.1:{port}" for port in free_ports(2))
    variables = {"KUBE_MODE": "off", "HTTP_ADDR": api, "OPERATIONS_ADDR": operations, **further}
    environment = {f"GPURUNTIME_RUNTIME_API_{name}": value for name, value in variables.items()}
    async with started("runtime-api", environment=environment):
        yield Process(f"http://{api}", f"http://{operations}")


@asynccontextmanager
async def manager() -> AsyncIterator[Process]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    async with started("manager", "--kube-mode", "off", "--http-addr", address):
        yield Process(f"http://{address}", f"http://{address}")


@asynccontextmanager
async def started(*command: str, environment: dict[str, str] | None = None) -> AsyncIterator[None]:
    program = (sys.executable, "-P", "-m", "gpuruntime.processes.command", *command)
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'ulimit -n {OPEN_FILES}; exec "$@"', "sh", *program),
        env=os.environ | (environment or {}),
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [probe.getsockname()[1] for probe in probes]


async def status_of(url: str, caller: str) -> int:
    """What a caller from an address gets, on a new connection; 0 if that is nothing within ten seconds."""
    connector = aiohttp.TCPConnector(local_addr=(caller, 0), force_close=True)
    with suppress(aiohttp.ClientError, TimeoutError):
        async with (
            aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=10)) as session,
            session.get(url) as response,
        ):
            await response.read()
            return response.status
    return 0


async def is_ready(process: Process) -> None:
    async with asyncio.timeout(60):
        while await status_of(f"{process.operations}/livez", OTHER) != 200:  # noqa: ASYNC110 - it announces nothing
            await asyncio.sleep(0.1)


async def flood(url: str, stack: ExitStack) -> None:
    """Connections that say nothing, and connections that say half of something; some may be closed on us."""
    host, _, port = url.removeprefix("http://").partition(":")
    for said in (b"", HALF_SENT):
        for _ in range(FLOOD):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            with suppress(OSError):
                async with asyncio.timeout(1):
                    await asyncio.get_running_loop().sock_connect(caller, (host, int(port)))
                caller.send(said)


@pytest.mark.parametrize("start", [runtime_api, manager])
async def test_others_and_probes_are_served_while_one_address_floods_the_api(
    start: Callable[[], AbstractAsyncContextManager[Process]],
) -> None:
    async with start() as process:
        await is_ready(process)

        with ExitStack() as stack:
            await flood(process.api, stack)

            asked = (f"{process.api}/api/v1/health", f"{process.operations}/livez", f"{process.operations}/metrics")
            answered = {url.rpartition("/")[2]: await status_of(url, OTHER) for url in asked}
            flooder = await status_of(asked[0], FLOODER)

    assert answered == {"health": 200, "livez": 200, "metrics": 200}
    assert flooder == 200


async def test_a_connection_limit_above_the_descriptors_locks_no_caller_out() -> None:
    async with runtime_api(CONNECTIONS_TOTAL="100000", CONNECTIONS_PER_ADDRESS="100000") as process:
        await is_ready(process)

        with ExitStack() as stack:
            await flood(process.api, stack)

            answered = [
                await status_of(f"{process.api}/api/v1/health", OTHER),
                await status_of(f"{process.operations}/livez", OTHER),
            ]

    assert answered == [200, 200]
