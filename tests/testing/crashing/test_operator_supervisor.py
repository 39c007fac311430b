"""Start, restart and kill of an operator."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import Launch
from gpuruntime.testing.crashing.operator_supervisor import OperatorSupervisor
from gpuruntime.testing.faults.proxy import ClientCertificate, FaultProxy

LAUNCH = Launch(Path("nowhere"), {"main": "main-1"})


@pytest.fixture
async def proxy(kube_cluster: ClusterAccess) -> AsyncIterator[FaultProxy]:
    identity = ClientCertificate(kube_cluster.certificate, kube_cluster.key)
    async with FaultProxy(kube_cluster.server, kube_cluster.authority, identity=identity) as proxy:
        yield proxy


async def test_writes_of_an_operator_being_killed_are_lost_and_those_of_the_next_one_pass(
    proxy: FaultProxy,
) -> None:
    said: list[int | str] = []
    began = asyncio.Event()

    async def operator(_launch: Launch) -> None:
        async with aiohttp.ClientSession(proxy.url) as client:
            try:
                async with client.get("/version") as answer:
                    said.append(answer.status)
                began.set()
                await asyncio.Event().wait()
            finally:
                try:
                    await client.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "bye"}})
                except aiohttp.ClientConnectionError:
                    said.append("cut off")

    async with asyncio.TaskGroup() as group:
        supervisor = OperatorSupervisor(operator, LAUNCH, proxy, group)
        for _ in range(2):
            began.clear()
            supervisor.start()
            await began.wait()
            await supervisor.kill()

    assert said == [200, "cut off", 200, "cut off"]
    assert (supervisor.started, supervisor.exits) == (None, [])


async def test_an_operator_that_exits_by_itself_is_restarted(proxy: FaultProxy) -> None:
    starts = 0
    third = asyncio.Event()

    async def operator(_launch: Launch) -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise ValueError("no such flag")
        if starts == 3:
            third.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        supervisor = OperatorSupervisor(operator, LAUNCH, proxy, group)
        supervisor.start()
        await third.wait()
        await supervisor.kill()

    assert supervisor.exits == ["ValueError: no such flag", "returned"]


async def test_an_operator_that_answers_cancellation_with_an_error_counts_as_killed(proxy: FaultProxy) -> None:
    starts = []

    async def operator(_launch: Launch) -> None:
        starts.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("cannot say goodbye")

    async with asyncio.TaskGroup() as group:
        supervisor = OperatorSupervisor(operator, LAUNCH, proxy, group)
        supervisor.start()
        await asyncio.sleep(0)
        await supervisor.kill()

    assert (len(starts), supervisor.exits) == (1, [])
