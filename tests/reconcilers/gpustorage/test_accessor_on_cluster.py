"""The accessor of a storage, in a controller that does nothing else."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from gpuruntime.api.gpustorage import READ_WRITE_ONCE, READ_WRITE_ONCE_POD, GPUStorage
from gpuruntime.api.names import ATTACHED_TO, GROUP
from gpuruntime.control import Context, Controller, Manager, ManagerOptions, Result
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.desired.storage.accessor import AccessorRendering, accessor_name
from gpuruntime.gateway.signing.keys import SigningKey
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.gpustorage.accessor import AccessorCaches, AccessorSync
from gpuruntime.testing import AdminClient, AuditLog, ClusterAccess, RefusedError
from gpuruntime.testing.permissions import granted_account, usage
from tests.control.scenes import managing
from tests.product_scenes import eventually, rested

RENDERING = AccessorRendering("gpuruntime:dev", (SigningKey.generate().public_text,))
STORAGES = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpustorages"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
SERVICES = "/api/v1/namespaces/{}/services"
CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"
NAME = accessor_name("data")


def build(credentials: Credentials, namespace: str) -> tuple[Manager, Controller[ObjectKey]]:
    """A manager whose only controller syncs accessors. Every storage is mountable."""
    manager = Manager(credentials, ManagerOptions("accessors", grace=5.0))
    caches = AccessorCaches.of(manager.cache, [namespace])
    sync = AccessorSync(caches, RENDERING)

    async def reconcile(storage: GPUStorage, ctx: Context) -> Result:
        if storage.metadata.deletion_timestamp is None:
            outcome = await sync.sync(ctx, storage, is_mountable=True, is_bound=True)
            await ctx.update_status(evolve(storage.status, accessor=outcome.status))
        return Result.done()

    builder = manager.controller(GPUStorage, namespaces=[namespace], field_manager=GROUP)
    return manager, caches.owned_by(builder).updates_status().reconcile(reconcile)


@frozen
class World:
    """A namespace with a bound volume claim, and the account of the controller."""

    admin: AdminClient
    namespace: str
    kubeconfig: Path
    username: str
    permissions: tuple[Any, ...]
    audit: AuditLog

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Controller[ObjectKey]]:
        manager, controller = build(from_kubeconfig(self.kubeconfig), self.namespace)
        async with managing(manager):
            yield controller

    def create(self, mode: str) -> None:
        spec = {"size": "1Gi", "accessMode": mode, "accessor": {"enabled": True}}
        self.admin.create(STORAGES.format(self.namespace), _storage(spec))

    def change(self, **body: Any) -> None:
        self.admin.merge(f"{STORAGES.format(self.namespace)}/data", body)

    async def phase(self, phase: str, words: str = "") -> dict[str, Any]:
        """The status of the accessor, once it is in this phase, with a message that contains these words."""
        found: dict[str, Any] = {}

        def holds() -> bool:
            storage = self.admin.get(f"{STORAGES.format(self.namespace)}/data")
            found.update(storage.get("status", {}).get("accessor") or {"phase": "", "message": ""})
            return bool(found["phase"] == phase and words in (found.get("message") or ""))

        await eventually(holds)
        return found

    def child(self, path: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.admin.get(f"{path.format(self.namespace)}/{NAME}")
        except RefusedError as error:
            if error.status != 404:
                raise
            return None
        return found


def _storage(spec: dict[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "GPUStorage"}
    return {**kind, "metadata": {"name": "data"}, "spec": spec}


@contextmanager
def bound_claim(admin: AdminClient, namespace: str) -> Iterator[None]:
    """A PersistentVolumeClaim `data` with a volume."""
    modes, size = [READ_WRITE_ONCE], {"storage": "1Gi"}
    volume = {
        "accessModes": modes,
        "capacity": size,
        "hostPath": {"path": "/volumes/none"},
        "claimRef": {"namespace": namespace, "name": "data"},
    }
    claim = {
        "accessModes": modes,
        "storageClassName": "",
        "volumeName": namespace,
        "resources": {"requests": size},
    }
    admin.create("/api/v1/persistentvolumes", {"metadata": {"name": namespace}, "spec": volume})
    admin.create(CLAIMS.format(namespace), {"metadata": {"name": "data"}, "spec": claim})
    try:
        yield
    finally:
        admin.delete(f"{CLAIMS.format(namespace)}/data")
        admin.delete(f"/api/v1/persistentvolumes/{namespace}")


@pytest.fixture
async def accessors(
    product: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, tmp_path: Path
) -> AsyncIterator[World]:
    planned, _ = build(OFFLINE_CREDENTIALS, kube_namespace)
    with (
        bound_claim(product.admin(), kube_namespace),
        granted_account(product, planned.permissions, namespace=kube_namespace, directory=tmp_path) as account,
    ):
        yield World(
            product.admin(), kube_namespace, account.kubeconfig, account.username, planned.permissions, kube_audit
        )
        product.admin().delete(f"{STORAGES.format(kube_namespace)}/data")


async def test_an_accessor_starts_follows_the_unit_and_goes_with_exactly_its_permissions(accessors: World) -> None:
    accessors.create(READ_WRITE_ONCE)
    with accessors.audit.recording() as seen:
        async with accessors.running():
            ready = await accessors.phase("Ready")
            drift = {"spec": {"publishNotReadyAddresses": True, "selector": {"app": "other"}}}
            accessors.admin.merge(f"{SERVICES.format(accessors.namespace)}/{NAME}", drift)
            await eventually(lambda: "app" not in (accessors.child(SERVICES) or {})["spec"]["selector"])
            accessors.change(metadata={"annotations": {ATTACHED_TO: "gpuunits/demo"}})
            await accessors.phase("Pending", "not ready yet")
            beside = accessors.child(DEPLOYMENTS)
            accessors.change(metadata={"annotations": {ATTACHED_TO: None}})
            await accessors.phase("Ready")
            accessors.change(spec={"accessor": {"enabled": False}})
            await eventually(lambda: accessors.child(DEPLOYMENTS) is None and accessors.child(SERVICES) is None)

    assert (ready["serviceName"], ready["accessURL"]) == (NAME, f"/storage/{accessors.namespace}/data/")
    assert beside is not None
    assert "podAffinity" in beside["spec"]["template"]["spec"]["affinity"]
    found = usage(accessors.permissions, seen.requests, user=accessors.username)
    assert found.is_exact, str(found)


async def test_for_a_volume_of_one_pod_the_accessor_goes_for_a_unit_and_comes_back(accessors: World) -> None:
    accessors.create(READ_WRITE_ONCE_POD)
    async with accessors.running():
        await accessors.phase("Ready")
        accessors.change(metadata={"annotations": {ATTACHED_TO: "gpuunits/demo"}})
        await accessors.phase("Pending", "gives way to gpuunits/demo")
        await eventually(lambda: accessors.child(DEPLOYMENTS) is None)
        accessors.change(metadata={"annotations": {ATTACHED_TO: None}})
        await accessors.phase("Ready")


async def test_an_unchanged_storage_costs_no_write_and_foreign_objects_stay(accessors: World) -> None:
    accessors.create(READ_WRITE_ONCE)
    async with accessors.running() as controller:
        await accessors.phase("Ready")
        await rested(controller)
    with accessors.audit.recording() as seen:
        async with accessors.running() as controller:
            await rested(controller)
            controller.queue.add(ObjectKey(accessors.namespace, "data"))
            await rested(controller, 2)
    writes = [(write.verb, write.resource) for write in seen.writes(user=accessors.username)]

    accessors.change(spec={"accessor": {"enabled": False}})
    async with accessors.running():
        await eventually(lambda: accessors.child(SERVICES) is None)
    port = {"ports": [{"port": 1}]}
    accessors.admin.create(SERVICES.format(accessors.namespace), {"metadata": {"name": NAME}, "spec": port})
    accessors.change(spec={"accessor": {"enabled": True}})
    async with accessors.running():
        await accessors.phase("Failed", NAME)
    theirs = accessors.child(SERVICES)

    assert writes == []
    assert theirs is not None
    assert theirs["spec"]["ports"][0]["port"] == 1
    accessors.admin.delete(f"{SERVICES.format(accessors.namespace)}/{NAME}")
