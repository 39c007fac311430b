"""The API while a namespace of the product is deleted, on a real control plane."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import aiohttp

from gpuruntime.testing import ClusterAccess, RefusedError
from gpuruntime.testing.cluster.namespaces import create_namespace
from tests.control.scenes import eventually_on_server
from tests.product.split_scenes import split_world


async def asked(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> tuple[int, str, str]:
    """Status, code and message of the answer to a POST; "" where there are none."""
    async with session.post(url, json=body) as answer:
        said = await answer.json()
    error = said.get("error", {})
    return answer.status, error.get("code", ""), error.get("message", "")


async def test_a_write_names_the_missing_namespace_and_how_to_create_it_again(
    product: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    admin, stock = product.admin(), f"gone-{uuid.uuid4().hex[:10]}"
    path = f"/api/v1/namespaces/{stock}"
    create_namespace(admin, stock)
    # A finalizer keeps the namespace terminating.
    admin.create(f"{path}/configmaps", {"metadata": {"name": "last", "finalizers": ["example.com/held"]}})

    def is_gone() -> bool:
        try:
            admin.get(path)
        except RefusedError as error:
            return error.status == 404
        return False

    async with (
        split_world(product, kube_namespace, stock, tmp_path) as world,
        aiohttp.ClientSession() as session,
    ):
        api = await world.runtime_api()

        async def writes(turn: int) -> list[tuple[int, str, str]]:
            envelope: dict[str, Any] = {"specName": "g1.1", "cpu": "10m", "memory": "16Mi"}
            unit: dict[str, Any] = {"name": f"demo-{turn}", "specName": "g1.1", "image": "nginx"}
            return [
                await asked(session, f"{api.api}/{path}", {"operationID": f"{turn}-{number}", **body})
                for number, (path, body) in enumerate(
                    [
                        ("operator/stock-units", {**envelope, "replicas": 1}),
                        ("operator/stockpools", {**envelope, "replicas": 0}),
                        ("gpu-units", unit),
                    ]
                )
            ]

        before = await writes(0)
        await asyncio.to_thread(admin.delete, path)
        going = await writes(1)
        await asyncio.to_thread(admin.merge, f"{path}/configmaps/last", {"metadata": {"finalizers": None}})
        await eventually_on_server(is_gone)
        gone = await writes(2)

    assert [status for status, _, _ in before] == [202, 202, 409]
    assert {(status, code) for status, code, _ in going + gone} == {(503, "namespace_not_found")}
    assert all(f"namespace '{stock}' is being deleted" in message for _, _, message in going)
    assert all(f"namespace '{stock}' does not exist" in message for _, _, message in gone)
    assert all("kubectl apply -k" in message for _, _, message in going + gone)
