"""The GPUStorage operator at work, with the permissions that it declares and no others, and volumes for fake nodes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import OFFLINE_CREDENTIALS, Cache, Informer, Manager, ManagerOptions, WaitCondition, wait_for
from gpuruntime.desired.storage.rendering import StorageRendering
from gpuruntime.kube import Client, MergePatch, NotFoundError, connect
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.reconcilers.gpustorage.reconciler import GPUStorageOptions, install_gpustorage
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.cluster.accounts import Account
from gpuruntime.testing.permissions import granted_account
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes
from tests.control.scenes import managing
from tests.product_scenes import rested
from tests.reconcilers.unit_scenes import Operator

__all__ = ["COPY", "WAIT", "StorageWorld", "storage_world"]

WAIT = {"fromImage": "wait.invalid/fill:1", "args": ["fill"]}
"""A preparation whose program ends when the test says so, by `StorageWorld.ends`."""
COPY = StorageRendering(copy_image="wait.invalid/copy:1")
_EXIT = "testing.gpuruntime.local/exit"
_OPTIONS = ManagerOptions("gpu-runtime-operator", grace=5.0)
_STORAGES = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpustorages"
_WITHIN = 60.0


@frozen
class StorageWorld:
    """Where a test's storages live, who the operator is, and what an administrator sees and does."""

    access: ClusterAccess
    account: Account
    options: GPUStorageOptions
    audit: AuditLog
    volumes: FakeVolumes
    namespace: str
    client: Client = field(repr=False)
    storages: Informer[GPUStorage] = field(repr=False)
    claims: Informer[PersistentVolumeClaim] = field(repr=False)
    jobs: Informer[Job] = field(repr=False)
    pods: Informer[Pod] = field(repr=False)

    @asynccontextmanager
    async def operator(self, rendering: StorageRendering | None = None) -> AsyncIterator[Operator]:
        """A running operator."""
        options = self.options if rendering is None else evolve(self.options, rendering=rendering)
        manager = Manager(from_kubeconfig(self.account.kubeconfig), _OPTIONS)
        controller = install_gpustorage(manager, options)
        async with managing(manager):
            yield Operator(manager, controller)

    async def writes_of_a_second_pass(self, rendering: StorageRendering | None = None) -> list[tuple[str, str]]:
        """What an operator writes that starts now, looks at all storages, and then at all of them again."""
        count = len((await self.client.list(GPUStorage, self.namespace)).items)
        with self.audit.recording() as seen:
            async with self.operator(rendering) as operator:
                await rested(operator.controller, count)
                for key in operator.controller.informers[0].store:
                    operator.controller.queue.add(key)
                await rested(operator.controller, 2 * count)
        return [(write.verb, write.resource) for write in seen.writes(user=self.account.username)]

    def key(self, name: str = "data") -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def create(self, name: str = "data", *, of: str = "", size: str = "1Gi", **spec: Any) -> None:
        """Create a storage as a user does, of the class `immediate` unless given."""
        wanted = {"size": size, "storageClassName": of or self.volumes.classes.immediate, **spec}
        body = {
            "apiVersion": "runtime.lokiwager.io/v1alpha1",
            "kind": "GPUStorage",
            "metadata": {"name": name},
            "spec": wanted,
        }
        self.access.admin().create(_STORAGES.format(self.namespace), body)

    async def because(self, reason: str, words: str = "", name: str = "data") -> GPUStorage:
        """The storage, once its Ready condition has this reason, and a message that contains these words."""

        def holds(storage: GPUStorage) -> bool:
            ready = find_condition(storage.status.conditions, "Ready")
            return ready is not None and ready.reason == reason and words in (ready.message or "")

        return await self.until(f"is {reason} ({words})", holds, name)

    async def until(self, text: str, holds: Callable[[GPUStorage], bool], name: str = "data") -> GPUStorage:
        """The storage, once a predicate holds."""
        expected: WaitCondition[GPUStorage] = WaitCondition(text, lambda found: found is not None and holds(found))
        found = await wait_for(self.storages, self.key(name), expected, within=_WITHIN)
        assert found is not None
        return found

    async def gone(self, name: str = "data") -> None:
        """Returns when there is no storage of this name."""
        absent: WaitCondition[GPUStorage] = WaitCondition("is gone", lambda found: found is None)
        await wait_for(self.storages, self.key(name), absent, within=_WITHIN)

    async def claim(self, name: str = "data") -> PersistentVolumeClaim | None:
        """The PersistentVolumeClaim of this name, as it is on the server."""
        try:
            return await self.client.get(PersistentVolumeClaim, name, self.namespace)
        except NotFoundError:
            return None

    async def change(self, metadata: dict[str, Any] | None = None, name: str = "data", **spec: Any) -> None:
        """Change a storage as a user does."""
        body = {"metadata": metadata or {}, "spec": spec}
        await self.client.patch(GPUStorage, name, self.namespace, MergePatch(body))

    async def running_pod(self, name: str = "data") -> Pod:
        """The pod of a preparation that is running now."""
        found: list[Pod] = []

        def is_there(_store: object) -> bool:
            found[:] = [
                pod
                for pod in self.pods.store.list(self.namespace).items
                if pod.metadata.labels.get("runtime.lokiwager.io/storage-prepare") == name
                and pod.status.phase == "Running"
            ]
            return bool(found)

        async with asyncio.timeout(_WITHIN):
            await self.pods.until(is_there)
        return found[0]

    async def ends(self, exit_code: str = "0", name: str = "data") -> None:
        """Have the program of a preparation end with a code, which words may follow."""
        pod = await self.running_pod(name)
        patch = MergePatch({"metadata": {"annotations": {_EXIT: exit_code}}})
        await self.client.patch(Pod, pod.metadata.name, self.namespace, patch)

    async def job_names(self) -> list[str]:
        return [job.metadata.name for job in (await self.client.list(Job, self.namespace)).items]

    async def no_jobs(self) -> None:
        """Returns when there is no Job."""
        async with asyncio.timeout(_WITHIN):
            await self.jobs.until(lambda store: not store.list(self.namespace).items)


@asynccontextmanager
async def storage_world(
    access: ClusterAccess, audit: AuditLog, volumes: FakeVolumes, namespace: str, stock: str, directory: Path
) -> AsyncIterator[StorageWorld]:
    """A world of one namespace, with a provisioner at work."""
    options = GPUStorageOptions(Namespaces((namespace,), (stock,)), COPY, refused_seconds=0.2)
    planned = Manager(OFFLINE_CREDENTIALS, _OPTIONS)
    install_gpustorage(planned, options)
    credentials = from_kubeconfig(access.kubeconfig)
    account_of_operator = directory / "operator"
    account_of_operator.mkdir()
    with granted_account(access, planned.permissions, namespace=namespace, directory=account_of_operator) as account:
        async with (
            connect(credentials, field_manager="admin") as client,
            Transport(credentials, user_agent="observer") as transport,
            volumes.running(within=240),
        ):
            cache = Cache(transport)
            informers: list[Informer[Any]] = [
                cache.informer(kind, namespaces=[namespace]) for kind in (GPUStorage, PersistentVolumeClaim, Job, Pod)
            ]
            task = asyncio.create_task(cache.run())
            try:
                await cache.synced(within=_WITHIN)
                yield StorageWorld(access, account, options, audit, volumes, namespace, client, *informers)
            finally:
                task.cancel()
                await asyncio.wait([task])
