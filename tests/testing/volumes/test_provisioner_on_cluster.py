"""The provisioner beside Kubernetes' own controllers, which bind and release its volumes."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from attrs import frozen

from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.kube import from_kubeconfig
from gpuruntime.testing import ClusterAccess, NodeShape
from gpuruntime.testing.managers import running
from gpuruntime.testing.volumes.host_path import HostPathVolumes
from gpuruntime.testing.volumes.provisioner import Provisioner, provision_volumes
from gpuruntime.testing.volumes.storage_class import storage_class


@frozen
class World:
    """A fake node, a storage class of its own, and a directory for its volumes."""

    cluster: ClusterAccess
    namespace: str
    node: str
    volumes: Path

    @asynccontextmanager
    async def provisioning(self) -> AsyncIterator[Self]:
        manager = Manager(from_kubeconfig(self.cluster.kubeconfig), ManagerOptions("provisioner"))
        provision_volumes(manager, Provisioner(self.node, self.node, HostPathVolumes(self.volumes)))
        async with running(manager):
            yield self

    async def kubectl(self, *arguments: str, body: dict[str, Any] | None = None) -> str:
        text = None if body is None else json.dumps(body)
        return await asyncio.to_thread(self.cluster.kubectl, *arguments, "-n", self.namespace, input_text=text)

    async def add_class(self, **fields: Any) -> None:
        await self.kubectl("create", "-f", "-", body={**storage_class(self.node, self.node), **fields})

    async def claim(self) -> None:
        spec = {
            "storageClassName": self.node,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
        await self.kubectl("create", "-f", "-", body=body)

    async def use(self) -> None:
        """Run a pod with the claim, which the scheduler can only put on the node."""
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [{"name": "x", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": spec}
        await self.kubectl("create", "-f", "-", body=body)
        await self.kubectl("wait", "pod/user", "--for=condition=Ready", "--timeout=60s")

    async def bound(self) -> dict[str, Any]:
        """The volume of the claim, as soon as it is bound."""
        await self.kubectl("wait", "pvc/data", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
        name = await self.kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
        return dict(json.loads(await self.kubectl("get", "pv", name, "-o", "json")))


@pytest.fixture
def world(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_nodes: Callable[[NodeShape], None], tmp_path: Path
) -> Iterator[World]:
    node = f"disk-{uuid.uuid4().hex[:8]}"
    kube_nodes(NodeShape(node))
    yield World(kube_cluster, kube_namespace, node, tmp_path / "volumes")
    kube_cluster.kubectl("delete", "storageclass", node, "--ignore-not-found")


def is_directory(path: Path) -> bool:
    return path.is_dir()


def test_a_volume_is_made_for_the_first_pod_and_removed_with_its_claim(world: World) -> None:
    async def story() -> None:
        async with world.provisioning():
            await world.add_class()
            await world.claim()
            await world.use()
            volume = await world.bound()
            path = Path(volume["spec"]["hostPath"]["path"])
            assert path.parent == world.volumes
            (path / "deep").mkdir()
            (path / "deep" / "file").write_text("x")

            await world.kubectl("delete", "pod", "user")
            await world.kubectl("delete", "pvc", "data")
            await world.kubectl("wait", f"pv/{volume['metadata']['name']}", "--for=delete", "--timeout=60s")

            assert list(world.volumes.iterdir()) == []

    asyncio.run(story())


def test_a_class_that_comes_later_and_does_not_wait_gives_volumes_at_once(world: World) -> None:
    async def story() -> None:
        async with world.provisioning():
            await world.claim()
            await world.add_class(volumeBindingMode="Immediate")

            volume = await world.bound()

            assert volume["spec"]["capacity"] == {"storage": "1Gi"}
            assert is_directory(Path(volume["spec"]["hostPath"]["path"]))

    asyncio.run(story())


def test_a_volume_that_is_deleted_while_it_is_bound_keeps_its_data_until_the_claim_is_gone(world: World) -> None:
    async def story() -> None:
        async with world.provisioning():
            await world.add_class(volumeBindingMode="Immediate")
            await world.claim()
            volume = await world.bound()
            name, path = volume["metadata"]["name"], Path(volume["spec"]["hostPath"]["path"])

            await world.kubectl("delete", "pv", name, "--wait=false")
            await world.use()
            assert is_directory(path)
            await world.kubectl("delete", "pod", "user")
            await world.kubectl("delete", "pvc", "data")
            await world.kubectl("wait", f"pv/{name}", "--for=delete", "--timeout=60s")

            assert not is_directory(path)

    asyncio.run(story())


def test_retained_data_outlives_its_volume(world: World) -> None:
    async def story() -> None:
        async with world.provisioning():
            await world.add_class(volumeBindingMode="Immediate", reclaimPolicy="Retain")
            await world.claim()
            volume = await world.bound()
            name, path = volume["metadata"]["name"], Path(volume["spec"]["hostPath"]["path"])

            await world.kubectl("delete", "pvc", "data")
            await world.kubectl("wait", f"pv/{name}", "--for=jsonpath={.status.phase}=Released", "--timeout=60s")
            await world.kubectl("delete", "pv", name)

            assert is_directory(path)

    asyncio.run(story())


def test_a_restarted_provisioner_removes_what_was_deleted_meanwhile(world: World) -> None:
    async def story() -> None:
        async with world.provisioning():
            await world.add_class(volumeBindingMode="Immediate")
            await world.claim()
            volume = await world.bound()
        await world.kubectl("delete", "pvc", "data")

        async with world.provisioning():
            await world.kubectl("wait", f"pv/{volume['metadata']['name']}", "--for=delete", "--timeout=60s")

        assert list(world.volumes.iterdir()) == []

    asyncio.run(story())
