"""A crash scenario: a storage is filled at the second attempt, copied and deleted; its copy grows."""

from collections.abc import Callable
from typing import Any

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec, StorageAccessor, StoragePrepare
from gpuruntime.api.names import RECOVERY_NONCE, STORAGE_PREPARE_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.desired.storage.accessor import AccessorRendering
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.kube import MergePatch
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectMeta, is_true
from gpuruntime.reconcilers.gpustorage.reconciler import GPUStorageOptions, install_gpustorage
from gpuruntime.reconcilers.storage_locks import StorageLockOptions, install_storage_locks
from gpuruntime.service.operations.record import LeaseTiming
from gpuruntime.testing.crashing import Launch, Scenario, Stage, World
from tests.reconcilers.storage_promises import KINDS, StoragePromises, final_state, storage_named

__all__ = ["ACCESSOR", "filling", "keeping_storages", "storage_options"]

ACCESSOR = AccessorRendering("gpuruntime:test", ("ed25519:test",))
_EXIT = "testing.gpuruntime.local/exit"
_IMPATIENT = LeaseTiming(lease=3.0, renew=2.5, period=0.8)


def storage_options(namespaces: Namespaces) -> GPUStorageOptions:
    """Storages with accessors."""
    return GPUStorageOptions(namespaces, accessor=ACCESSOR)


async def keeping_storages(launch: Launch) -> None:
    """The operator under test: the reconciler of storages and the lock reaper."""
    manager = Manager(launch.credentials, ManagerOptions("gpu-runtime-operator", grace=1.0))
    namespaces = Namespaces((launch.namespace("active"),), (), launch.namespace("active"))
    install_gpustorage(manager, storage_options(namespaces))
    install_storage_locks(manager, StorageLockOptions(namespaces, _IMPATIENT))
    await manager.run()


def filling(storage_class: str) -> Scenario:
    """The scenario, with volumes of a class."""

    async def act(stage: Stage) -> None:
        namespace = stage.namespace("active")

        async def create(name: str, **spec: Any) -> None:
            wanted = GPUStorageSpec(size="1Gi", storage_class_name=storage_class, **spec)
            await stage.client.create(GPUStorage(ObjectMeta(name=name, namespace=namespace), wanted))

        async def change(name: str, body: dict[str, Any]) -> None:
            await stage.client.patch(GPUStorage, name, namespace, MergePatch(body))

        async def ends(attempt: int, exit_code: str) -> None:
            await stage.until(lambda world: bool(_running(world, attempt)))
            pod = _running(stage.recorder.world, attempt)[0]
            patch = MergePatch({"metadata": {"annotations": {_EXIT: exit_code}}})
            await stage.client.patch(Pod, pod.metadata.name, namespace, patch)

        prepare = StoragePrepare(from_image="wait.invalid/fill:1", args=("fill",))
        await create("data", prepare=prepare, accessor=StorageAccessor(enabled=True))
        await create("copy", prepare=StoragePrepare(from_storage_name="data"))
        await ends(1, "3 disk is full")
        await stage.until(_storage("data", lambda found: found.status.phase == "Failed"))
        await change("data", {"metadata": {"annotations": {RECOVERY_NONCE: "again"}}})
        await ends(2, "0")
        await stage.until(_storage("copy", lambda found: found.status.phase == "Ready"))
        await change("copy", {"spec": {"size": "2Gi"}})
        await stage.until(_storage("data", lambda found: lock_of(found.metadata) is None))
        await stage.client.delete(GPUStorage, "data", namespace)

    return Scenario(
        name="a storage is filled at the second attempt, copied and deleted",
        kinds=KINDS,
        act=act,
        settled=_is_settled,
        invariant=StoragePromises().broken,
        observe=final_state,
        namespaces=("active",),
        ignored_resources=("leases", "events"),
        timeout=90.0,
    )


def _running(world: World, attempt: int) -> list[Pod]:
    """The pods of an attempt to prepare the storage `data` that run now."""
    return [
        pod
        for pod in world.list(Pod)
        if pod.metadata.labels.get(STORAGE_PREPARE_LABEL) == "data"
        and pod.metadata.labels["batch.kubernetes.io/job-name"].endswith(f"-{attempt}")
        and pod.status.phase == "Running"
    ]


def _storage(name: str, holds: Callable[[GPUStorage], bool]) -> Callable[[World], bool]:
    def of(world: World) -> bool:
        found = storage_named(world, name)
        return found is not None and holds(found)

    return of


def _is_settled(world: World) -> bool:
    copy = storage_named(world, "copy")
    return (
        storage_named(world, "data") is None
        and copy is not None
        and is_true(copy.status.conditions, "Ready")
        and (copy.status.capacity, copy.status.resize) == ("2Gi", None)
        and not [obj for kind in (Job, Pod, Deployment) for obj in world.list(kind)]
    )
