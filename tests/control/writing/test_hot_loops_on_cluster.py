"""Two writers that revert each other on a real API server."""

import asyncio
from typing import Any

import orjson
import pytest
from attrs import frozen

from gpuruntime.control.writing.hot_loops import HotLoopError, HotLoopGuard
from gpuruntime.kube.errors import ConflictError
from gpuruntime.kube.transport.request import Request
from gpuruntime.testing import AdminClient, ClusterAccess
from tests.control.scenes import open_transport

US, THEM = "widget-operator", "autoscaler"


def deployment() -> dict[str, Any]:
    labels = {"app": "web"}
    container = {"name": "web", "image": "example.org/web:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@frozen
class Writers:
    """Our guarded writer and another one, for one Deployment."""

    guard: HotLoopGuard
    admin: AdminClient
    path: str

    async def write(self, replicas: int, image: str) -> None:
        """Read the object, set our fields, update it; after a conflict, once more from the start."""
        while True:
            body = await asyncio.to_thread(self.admin.get, self.path)
            body["spec"]["replicas"] = replicas
            body["spec"]["template"]["spec"]["containers"][0]["image"] = image
            try:
                await self.guard.send(Request("PUT", self.path, params={"fieldManager": US}, body=orjson.dumps(body)))
            except ConflictError:
                continue
            return

    async def revert(self) -> None:
        container = {"name": "web", "image": "example.org/web:1"}
        spec = {"replicas": 0, "template": {"spec": {"containers": [container]}}}
        await asyncio.to_thread(self.admin.merge, f"{self.path}?fieldManager={THEM}", {"spec": spec})


async def test_a_hot_loop_is_stopped_and_names_the_fields_and_the_other_manager(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    collection = f"/apis/apps/v1/namespaces/{kube_namespace}/deployments"
    admin = kube_cluster.admin()
    admin.create(collection, deployment())
    async with open_transport(kube_cluster) as transport:
        writers = Writers(HotLoopGuard(transport, US), admin, f"{collection}/web")

        for _ in range(5):
            await writers.write(1, "example.org/web:2")
            await writers.revert()
        with pytest.raises(HotLoopError) as caught:
            await writers.write(1, "example.org/web:2")
        held = admin.get(writers.path)["spec"]["replicas"]
        await writers.write(0, "example.org/web:3")

        assert "spec.replicas (set by autoscaler)" in str(caught.value)
        assert "spec.template.spec.containers[name=web].image (set by autoscaler)" in str(caught.value)
        assert (held, caught.value.retry_after) == (0, 30)


async def test_repeated_deletions_are_a_hot_loop(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    collection = f"/api/v1/namespaces/{kube_namespace}/configmaps"
    admin = kube_cluster.admin()
    async with open_transport(kube_cluster) as transport:
        guard = HotLoopGuard(transport, US)

        async def create(**metadata: str) -> None:
            await guard.send(Request("POST", collection, body=orjson.dumps({"metadata": metadata})))

        for _ in range(5):
            await create(name="ours")
            await asyncio.to_thread(admin.delete, f"{collection}/ours")
        with pytest.raises(HotLoopError, match=f"POST {collection} .*5 times"):
            await create(name="ours")
        for _ in range(10):
            await create(generateName="any-")
