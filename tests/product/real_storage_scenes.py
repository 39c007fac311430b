"""The whole product with storages on the real node, and what is on their volumes."""

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import OFFLINE_CREDENTIALS, Informer, WaitCondition, wait_for
from gpuruntime.kube import Client, connect
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.processes.config.accessor_section import Accessor
from gpuruntime.processes.config.sections import LeaderElection, StorageSection
from gpuruntime.processes.manager import ManagerConfig, build_manager
from gpuruntime.processes.wiring.api_server import ApiServer
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.permissions import granted_account
from gpuruntime.testing.volumes.host_path import HOST_PATH_CLASS
from tests.control.scenes import managing
from tests.product_scenes import UNITS, Observer, eventually, looking_on
from tests.service.service_scenes import looking_at

__all__ = ["RealStorages", "content_of", "real_storages"]

_REAL_NODE: Final = "gpuruntime.local/real-node"
_KIND: Final = {"apiVersion": "runtime.lokiwager.io/v1alpha1"}
_STORAGES: Final = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpustorages"
_WITHIN: Final = 120.0


@frozen
class RealStorages:
    """The running product, and an administrator's view of a namespace whose volumes are directories of the node."""

    access: ClusterAccess
    namespaces: Namespaces
    server: ApiServer
    client: Client
    storages: Informer[GPUStorage]
    observer: Observer
    volumes: Path

    @property
    def namespace(self) -> str:
        return self.namespaces.system

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def create(self, name: str, **spec: Any) -> None:
        """Create a storage as a user does."""
        body = {**_KIND, "kind": "GPUStorage", "metadata": {"name": name}, "spec": {"size": "16Mi", **spec}}
        self.access.admin().create(_STORAGES.format(self.namespace), body)

    def create_unit(self, name: str, script: str, *storages: str, image: str) -> None:
        """Create a unit that runs a script, with storages at /NAME, as a user does with kubectl."""
        spec = {
            "specName": "g1.1",
            "image": image,
            "cpu": "50m",
            "memory": "32Mi",
            "nodeSelector": {_REAL_NODE: "true"},
            "tolerations": [{"key": _REAL_NODE, "operator": "Exists"}],
            "template": {"command": ["sh", "-c", script]},
            "storageMounts": [{"name": storage, "mountPath": f"/{storage}"} for storage in storages],
        }
        body = {**_KIND, "kind": "GPUUnit", "metadata": {"name": name}, "spec": spec}
        self.access.admin().create(UNITS.format(self.namespace), body)

    async def because(self, name: str, reason: str, *, attempts: int = 0) -> GPUStorage:
        """The storage, once its Ready condition has this reason, after this number of attempts of its preparation."""

        def holds(storage: GPUStorage) -> bool:
            ready = find_condition(storage.status.conditions, "Ready")
            made = 0 if storage.status.prepare is None else storage.status.prepare.attempts or 0
            return ready is not None and ready.reason == reason and made >= attempts

        return await self.until(name, f"is {reason} after {attempts} attempts", holds)

    async def until(self, name: str, text: str, holds: Callable[[GPUStorage], bool]) -> GPUStorage:
        """The storage, once a predicate holds."""
        expected: WaitCondition[GPUStorage] = WaitCondition(text, lambda found: found is not None and holds(found))
        found = await wait_for(self.storages, self.key(name), expected, within=_WITHIN)
        assert found is not None
        return found

    async def delete(self, name: str) -> None:
        """Delete a storage; returns when it is gone."""
        await self.client.delete(GPUStorage, name, self.namespace)
        absent: WaitCondition[GPUStorage] = WaitCondition("is gone", lambda found: found is None)
        await wait_for(self.storages, self.key(name), absent, within=_WITHIN)

    async def directory(self, name: str) -> Path:
        """The directory of the bytes of a storage, on this machine."""
        claim = await self.client.get(PersistentVolumeClaim, name, self.namespace)
        return self.volumes / (claim.spec.volume_name or "")


def content_of(directory: Path) -> dict[str, str]:
    """The mode and the digest, or the target, of everything in a directory, by path."""

    def described(path: Path) -> str:
        if path.is_symlink():
            return f"link to {path.readlink()}"
        mode = oct(path.stat().st_mode)
        return mode if path.is_dir() else f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"

    return {str(path.relative_to(directory)): described(path) for path in sorted(directory.rglob("*"))}


@asynccontextmanager
async def real_storages(
    access: ClusterAccess, active: str, stock: str, volumes: Path, directory: Path, accessor: Accessor
) -> AsyncIterator[RealStorages]:
    """The product for the length of the block, with exactly the permissions that it declares."""
    config = ManagerConfig(
        namespaces=Namespaces((active,), (stock,), active),
        leader_election=LeaderElection(enabled=False),
        min_ready_seconds=0,
        storage=StorageSection(
            default_class=HOST_PATH_CLASS, node_selector=(f"{_REAL_NODE}=true",), tolerations=(_REAL_NODE,)
        ),
        accessor=accessor,
    )
    planned = build_manager(OFFLINE_CREDENTIALS, config)
    with granted_account(access, planned.permissions, namespace=active, directory=directory) as account:
        server = build_manager(from_kubeconfig(account.kubeconfig), config)
        async with (
            connect(from_kubeconfig(access.kubeconfig), field_manager="admin") as client,
            looking_at(access, GPUStorage, active) as storages,
            looking_on(access, active) as observer,
            managing(server.manager),
        ):
            await eventually(lambda: server.service.operations.is_accepting)
            yield RealStorages(access, config.namespaces, server, client, storages, observer, volumes)
