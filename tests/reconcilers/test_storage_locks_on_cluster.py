"""Locks whose holder went away, on a real control plane: a storage is free when nothing can write to it any more."""

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.reasons import STORAGE_IN_USE
from gpuruntime.control import Informer, Store
from gpuruntime.desired.storage.locks import Lock, lock_of
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey, ObjectMeta
from tests.desired.pool_scenes import NOW
from tests.mount_scenes import Storages, mounting
from tests.product_scenes import Observer, settled
from tests.reconcilers.pod_scenes import RUNNING, end, say, scheduled, silent_node
from tests.service.conftest import observer, seen_storages, storages, world
from tests.service.service_scenes import ServiceWorld

__all__ = ["observer", "seen_storages", "silent_node", "storages", "world"]


def is_free(store: Store[GPUStorage], key: ObjectKey) -> bool:
    found = store.get(key)
    return found is not None and lock_of(found.metadata) is None


async def make(world: ServiceWorld, name: str, gpu_type: str, *mounts: str) -> GPUUnit:
    spec = mounting(*mounts, gpu=1, gpu_type=gpu_type)
    return await world.admin.create(GPUUnit(ObjectMeta(name=name, namespace=world.active), spec))


def pods_of(store: Store[Pod], unit: GPUUnit) -> list[Pod]:
    prefix = f"unit-{unit.metadata.name}-"
    return [pod for pod in store.list(unit.metadata.namespace).items if pod.metadata.name.startswith(prefix)]


async def test_the_storage_of_a_deleted_unit_and_one_that_a_unit_dropped_are_free_when_the_old_pods_are_gone(
    world: ServiceWorld, observer: Observer, storages: Storages, silent_node: str
) -> None:
    admin = world.access.admin()
    for name in ("a", "b"):
        storages.make(name)
    async with world.product() as product:
        first = await make(world, "first", silent_node, "a")
        changing = await make(world, "changing", silent_node, "b")
        await observer.pods.until(lambda _: len(scheduled(observer)) == 2)
        for name in scheduled(observer):
            say(admin, world.active, name, "Running", ready=True, state=RUNNING)
        old = {unit.metadata.name: pods_of(observer.pods.store, unit)[0] for unit in (first, changing)}

        await world.admin.delete(GPUUnit, "first", world.active)
        await world.admin.patch(GPUUnit, "changing", world.active, MergePatch({"spec": {"storageMounts": []}}))
        second = await make(world, "second", silent_node, "a")
        third = await make(world, "third", silent_node, "b")
        await observer.because(second.key, STORAGE_IN_USE, "gpuunits/first")
        await observer.because(third.key, STORAGE_IN_USE, "gpuunits/changing")
        for pod in old.values():
            await observer.pods.until(
                lambda store, key=pod.key: store.get(key).metadata.deletion_timestamp is not None  # type: ignore[misc]
            )
        await settled(world.access, product.locks)
        held = (storages.lock("a"), storages.lock("b"))
        for pod in old.values():
            end(admin, world.active, pod.metadata.name)
        await observer.pods.until(lambda store: bool(pods_of(store, second)) and bool(pods_of(store, third)))
        locks = (storages.lock("a"), storages.lock("b"))

    assert held == (Lock.of(first), Lock.of(changing))
    assert locks == (Lock.of(second), Lock.of(third))


async def test_void_locks_of_all_kinds_of_holders_are_released(
    world: ServiceWorld, storages: Storages, seen_storages: Informer[GPUStorage]
) -> None:
    void = {
        "gone": Lock("gpuunits/gone", "u1"),
        "copied": Lock("gpustorages/gone", "s1"),
        "nonsense": Lock("anything"),
    }
    for name, lock in void.items():
        storages.make(name)
        storages.annotate(name, lock.annotations(NOW))

    async with world.product():
        await seen_storages.until(lambda store: all(is_free(store, storages.key(name)) for name in void))

    assert await world.writes_of_a_second_pass() == []
