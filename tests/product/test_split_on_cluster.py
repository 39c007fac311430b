"""The two processes apart: neither needs the other, they shut down gracefully, and both log the ids of a request."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from gpuruntime.api.names import REQUEST_ID
from gpuruntime.api.operation import Operation, operation_name
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import ClusterAccess
from tests.product.split_scenes import Process, SplitWorld, split_world
from tests.product_scenes import looking_on

UNIT = {"specName": "g1.1", "image": "nginx", "coldStart": True, "cpu": "10m", "memory": "16Mi"}
# The answer 100 shows that the request was accepted.
HEAD = (
    "POST /api/v1/gpu-units HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
    "Expect: 100-continue\r\n\r\n"
)


@pytest.fixture
async def world(
    product: ClusterAccess, kube_namespace: str, stock_namespace: str, tmp_path: Path
) -> AsyncIterator[SplitWorld]:
    async with split_world(product, kube_namespace, stock_namespace, tmp_path) as found:
        yield found


async def post(process: Process, name: str, **headers: str) -> tuple[int, dict[str, Any]]:
    body = {"operationID": f"order-{name}", "name": name, **UNIT}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{process.api}/gpu-units", json=body, headers=headers) as answer,
    ):
        return answer.status, await answer.json()


async def get(process: Process, path: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{process.api}{path}") as answer:
        assert answer.status == 200, await answer.text()
        data: dict[str, Any] = (await answer.json())["data"]
        return data


async def test_requests_are_executed_without_a_controller_and_units_reconciled_without_an_api(
    product: ClusterAccess, world: SplitWorld
) -> None:
    namespace = world.namespaces.system
    async with looking_on(product, namespace) as observer:
        api = await world.runtime_api()

        status, _ = await post(api, "alone")
        unit = await get(api, "/gpu-units/alone")
        job = await get(api, "/operator/jobs/order-alone")
        api.kill()
        await world.controller_manager()
        ready = await observer.ready(ObjectKey(namespace, "alone"))

    assert (status, unit["name"], job["status"]) == (201, "alone", "succeeded")
    assert ready.status.phase == "Ready"


async def test_a_request_is_found_by_its_ids_in_the_logs_of_both_processes(
    product: ClusterAccess, world: SplitWorld
) -> None:
    namespace = world.namespaces.system
    async with looking_on(product, namespace) as observer:
        controller = await world.controller_manager()
        api = await world.runtime_api()

        await post(api, "traced", **{"X-Request-ID": "r-1"})
        await observer.ready(ObjectKey(namespace, "traced"))
        codes = [await controller.stop(), await api.stop()]

    assert codes == [0, 0]
    stored = product.admin().get(f"{Operation.KIND.path(namespace)}/{operation_name('order-traced')}")
    assert stored["metadata"]["annotations"][REQUEST_ID] == "r-1"
    served = {line["message"]: line for line in api.lines() if line.get("request_id") == "r-1"}
    assert {"write request", "operation attempt ended"} <= served.keys()
    assert {line["operation_id"] for line in served.values()} == {"order-traced"}
    reconciled = [line for line in controller.lines() if line.get("operation_id") == "order-traced"]
    assert {(line["controller"], line["key"]) for line in reconciled} == {("gpuunit", f"{namespace}/traced")}
    assert all(line["reconcile_id"] for line in reconciled)


async def test_an_api_that_stops_answers_accepted_requests_and_ends_its_streams(world: SplitWorld) -> None:
    api = await world.runtime_api()
    body = json.dumps({"operationID": "order-last", "name": "last", **UNIT}).encode()
    async with aiohttp.ClientSession() as session, AsyncExitStack() as open_connections:
        stream = await session.get(f"{api.api}/gpu-units", params={"watch": "1"})
        begun = await stream.content.readuntil(b"synced")
        reader, writer = await connected(api, open_connections)
        writer.write(HEAD.format(len(body)).encode())
        taken = await reader.readuntil(b"\r\n\r\n")

        api.popen.send_signal(signal.SIGTERM)
        rest = await stream.content.read()  # raises if the answer was cut off
        ready = await probe(session, api)
        writer.write(body)
        answer = await reader.read()
        code = await api.ended()

    assert (taken.split()[1], answer.split()[1]) == (b"100", b"201")
    assert b"\r\nConnection: close\r\n" in answer
    assert (ready, code) == (500, 0)
    assert b"reset" in begun + rest
    assert "tasks did not stop in time, abandoned" not in {line["message"] for line in api.lines()}


async def connected(
    process: Process, open_connections: AsyncExitStack
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = URL(process.api)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    open_connections.callback(writer.close)
    return reader, writer


async def probe(session: aiohttp.ClientSession, process: Process) -> int:
    async with session.get(f"{process.metrics}/readyz") as answer:
        return answer.status
