"""Connections that send nothing lock no caller out: each process as it is started, with 256 descriptors."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from attrs import frozen

from gpuruntime.endpoints.auth.token_file import new_token
from gpuruntime.endpoints.server.route import Scope
from tests.ports import free_address

FLOOD, HALF_SENT = 500, b"POST /api/v1/stocks HTTP/1.1\r\nHost: local"
FLOODER, OTHER = "127.0.0.1", "127.0.0.2"
OPEN_FILES: Final = 256


@frozen
class Process:
    """A process without a cluster: where its API and its probes are, and what it logs."""

    api: str
    metrics: str
    log: Path


@asynccontextmanager
async def runtime_api(directory: Path, tokens: Path | None = None, **further: str) -> AsyncIterator[Process]:
    api, metrics = free_address(), free_address()
    known = {} if tokens is None else {"AUTH_TOKEN_FILE": str(tokens)}
    variables = {"KUBE_MODE": "off", "HTTP_ADDR": api, "METRICS_BIND_ADDRESS": metrics, **known, **further}
    environment = {f"GPURUNTIME_RUNTIME_API_{name}": value for name, value in variables.items()}
    process = Process(f"http://{api}", f"http://{metrics}", directory / "log")
    async with started(process, "runtime-api", environment=environment):
        yield process


@asynccontextmanager
async def manager(directory: Path, tokens: Path | None = None) -> AsyncIterator[Process]:
    address = free_address()
    known = () if tokens is None else ("--token-file", str(tokens))
    process = Process(f"http://{address}", f"http://{address}", directory / "log")
    async with started(process, "manager", "--kube-mode", "off", "--http-addr", address, *known):
        yield process


Start = Callable[..., AbstractAsyncContextManager[Process]]


@asynccontextmanager
async def started(of: Process, *command: str, environment: dict[str, str] | None = None) -> AsyncIterator[None]:
    program = (sys.executable, "-P", "-m", "gpuruntime.processes.command", *command)
    with of.log.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", f'ulimit -n {OPEN_FILES}; exec "$@"', "sh", *program),
            env=os.environ | (environment or {}),
            stderr=log,
            stdout=log,
        )
    try:
        await is_ready(of)
        yield
    finally:
        process.terminate()
        await process.wait()


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
        while await status_of(f"{process.metrics}/livez", OTHER) != 200:  # noqa: ASYNC110 - it announces nothing
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
async def test_others_and_probes_are_served_while_one_address_floods_the_api(start: Start, tmp_path: Path) -> None:
    async with start(tmp_path) as process:
        with ExitStack() as stack:
            await flood(process.api, stack)

            asked = (f"{process.api}/api/v1/health", f"{process.metrics}/livez", f"{process.metrics}/metrics")
            answered = {url.rpartition("/")[2]: await status_of(url, OTHER) for url in asked}
            flooder = await status_of(asked[0], FLOODER)

    assert answered == {"health": 200, "livez": 200, "metrics": 200}
    assert flooder == 200


async def test_a_connection_limit_above_the_descriptors_locks_no_caller_out(tmp_path: Path) -> None:
    async with runtime_api(tmp_path, None, CONNECTIONS_TOTAL="100000", CONNECTIONS_PER_ADDRESS="100000") as process:
        with ExitStack() as stack:
            await flood(process.api, stack)

            answered = [
                await status_of(f"{process.api}/api/v1/health", OTHER),
                await status_of(f"{process.metrics}/livez", OTHER),
            ]

    assert answered == [200, 200]


async def test_bodies_that_cannot_be_inflated_are_refused_without_a_failure(tmp_path: Path) -> None:
    made, tokens = new_token("caller", Scope.OPERATOR), tmp_path / "tokens"
    tokens.write_text(made.line)
    known = {"Authorization": f"Bearer {made.token}"}
    statuses = []

    async with runtime_api(tmp_path, tokens) as process, aiohttp.ClientSession(process.api) as session:
        for headers in ({}, known):
            for encoding in ("gzip", "deflate", "br"):
                named = {**headers, "Content-Encoding": encoding, "Content-Type": "application/json"}
                async with session.post("/api/v1/stocks", data=b"\x1f\x8b\x08" * 1000, headers=named) as response:
                    statuses.append(response.status)

    assert "Unhandled exception" not in process.log.read_text()
    assert statuses == [401] * 3 + [415] * 3
