"""Units that kubectl created, and their storages: a unit waits, says for what, and starts by itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpuruntime.api.gpustorage import READ_WRITE_MANY, READ_WRITE_ONCE_POD, GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import STORAGE_ACCESSOR_LABEL
from gpuruntime.api.reasons import STORAGE_IN_USE, STORAGE_NOT_READY
from gpuruntime.control import Cache
from gpuruntime.desired.storage.locks import LOCK_ANNOTATIONS, Lock, lock_of
from gpuruntime.kube import Client
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.reconcilers.gpuunit.caches import UnitCaches
from gpuruntime.reconcilers.gpuunit.mounts import UnitMounts
from gpuruntime.testing import ClusterAccess
from tests.control.scenes import running
from tests.desired.pool_scenes import NOW
from tests.mount_scenes import Storages, storages_of
from tests.product_scenes import UNITS, Observer, create_unit
from tests.reconcilers.pod_scenes import RUNNING, end, say, scheduled, silent_node
from tests.reconcilers.unit_scenes import UnitWorld, child_of, deployment_of
from tests.service.service_scenes import looking_at

__all__ = ["silent_node"]

FREE = dict.fromkeys(LOCK_ANNOTATIONS)


@pytest.fixture
def storages(product: ClusterAccess, kube_namespace: str) -> Iterator[Storages]:
    with storages_of(product.admin(), kube_namespace) as made:
        yield made


def is_locked(storage: GPUStorage | None) -> bool:
    return storage is not None and lock_of(storage.metadata) is not None


def mounts(*names: str, **others: Any) -> dict[str, Any]:
    return {"storageMounts": [{"name": name, "mountPath": f"/{name}", **others} for name in names]}


async def test_a_unit_waits_for_a_storage_that_is_missing_then_prepared_and_says_when_it_is_lost(
    world: UnitWorld, observer: Observer, kube_namespace: str, storages: Storages
) -> None:
    async with world.operator():
        key = create_unit(world.access.admin(), kube_namespace, "demo", **mounts("data"))
        await observer.because(key, STORAGE_NOT_READY, "data does not exist")
        storages.make("data", is_ready=False)
        await observer.because(key, STORAGE_NOT_READY, "just created")
        storages.say("data", "False", "PrepareRunning", "filling it")
        waiting = await observer.because(key, STORAGE_NOT_READY, "(PrepareRunning): filling it")
        has_waited = child_of(key) not in observer.deployments.store
        unlocked = storages.lock("data")

        storages.say("data", "True", "StorageReady")
        ready = await observer.ready(key)
        locked = storages.lock("data")
        before = deployment_of(observer, key).metadata.generation
        storages.say("data", "False", "ClaimLost", "the volume is gone")
        await observer.because(key, STORAGE_NOT_READY, "ClaimLost")
        after = deployment_of(observer, key).metadata.generation
        storages.say("data", "True", "StorageReady")
        await observer.ready(key)

    assert (waiting.status.phase, has_waited, unlocked) == ("Progressing", True, None)
    assert locked == Lock.of(ready)
    assert before == after
    assert await world.writes_of_a_second_pass() == []


async def test_a_unit_waits_for_storages_in_use_without_holding_back_others_and_starts_when_they_are_free(
    world: UnitWorld, observer: Observer, kube_namespace: str, storages: Storages
) -> None:
    for name in ("a", "b"):
        storages.make(name)
    storages.annotate("a", Lock("gpuunits/other", "u9").annotations(NOW))
    async with world.operator():
        key = create_unit(world.access.admin(), kube_namespace, "demo", **mounts("b", "a"))
        await observer.because(key, STORAGE_IN_USE, "a is in use by gpuunits/other")
        held_back = storages.lock("b")

        storages.annotate("a", FREE)
        unit = await observer.ready(key)
        locks = [storages.lock(name) for name in ("a", "b")]
        # Somebody removes the lock of a running unit.
        storages.annotate("a", FREE)
        async with looking_at(world.access, GPUStorage, kube_namespace) as seen:
            await seen.until(lambda store: is_locked(store.get(storages.key("a"))))
        second = create_unit(world.access.admin(), kube_namespace, "second", **mounts("a"))
        await observer.because(second, STORAGE_IN_USE, "gpuunits/demo")

    assert held_back is None
    assert locks == [Lock.of(unit)] * 2
    assert child_of(second) not in observer.deployments.store
    assert await world.writes_of_a_second_pass(2) == []


async def test_a_pod_without_a_lock_keeps_a_unit_waiting_and_so_does_the_accessor_of_a_volume_for_one_pod(
    world: UnitWorld, observer: Observer, kube_namespace: str, storages: Storages
) -> None:
    admin = world.access.admin()
    storages.make("data")
    storages.make("single", READ_WRITE_ONCE_POD)
    storages.make("model", READ_WRITE_MANY)
    pods = f"/api/v1/namespaces/{kube_namespace}/pods"
    admin.create(pods, pod("stranger", "data"))
    admin.create(pods, pod("reader", "model", {STORAGE_ACCESSOR_LABEL: "model"}))
    admin.create(pods, pod("browser", "single", {STORAGE_ACCESSOR_LABEL: "single"}))
    async with world.operator():
        data = create_unit(admin, kube_namespace, "data", **mounts("data"))
        single = create_unit(admin, kube_namespace, "single", **mounts("single"))
        shared = [create_unit(admin, kube_namespace, f"m{n}", **mounts("model", readOnly=True)) for n in range(2)]
        await observer.because(data, STORAGE_IN_USE, "pod stranger mounts it")
        await observer.because(single, STORAGE_NOT_READY, "accessor, pod browser")
        locked = (storages.lock("data"), storages.lock("single"))
        for key in shared:
            await observer.ready(key)

        for name in ("stranger", "browser"):
            admin.request("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})
        units = [await observer.ready(key) for key in (data, single)]

    assert locked == (None, Lock.of(units[1]))
    assert storages.lock("model") is None
    assert await world.writes_of_a_second_pass(4) == []


async def test_a_unit_that_gets_another_storage_keeps_its_pod_until_the_storage_can_be_mounted(
    world: UnitWorld, observer: Observer, kube_namespace: str, storages: Storages
) -> None:
    storages.make("a")
    async with world.operator():
        key = create_unit(world.access.admin(), kube_namespace, "demo", **mounts("a"))
        await observer.ready(key)
        before = deployment_of(observer, key)
        world.access.admin().merge(f"{UNITS.format(kube_namespace)}/demo", {"spec": mounts("a", "b")})
        await observer.because(key, STORAGE_NOT_READY, "b does not exist")
        waiting = deployment_of(observer, key)

        storages.make("b")
        await observer.ready(key, generation=2)
        shown: GPUUnit = await world_unit(observer, key)

    assert waiting.metadata.generation == before.metadata.generation
    assert storages.lock("b") == Lock.of(shown)
    assert [volume.name for volume in deployment_of(observer, key).spec.template.spec.volumes] == [
        "runtime-shm",
        "storage-0",
        "storage-1",
    ]


async def test_a_deployment_that_was_deleted_comes_back_when_its_pod_has_ended(
    world: UnitWorld, observer: Observer, kube_namespace: str, storages: Storages, silent_node: str
) -> None:
    admin = world.access.admin()
    storages.make("data")
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", **mounts("data"), gpu=1, gpuType=silent_node)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        [old] = scheduled(observer)
        say(admin, kube_namespace, old, "Running", ready=True, state=RUNNING)
        await observer.ready(key)

        admin.delete(f"/apis/apps/v1/namespaces/{kube_namespace}/deployments/{child_of(key).name}")
        waiting = await observer.because(key, STORAGE_IN_USE, f"data is in use: pod {old} is ending")
        beside = [pod.metadata.name for pod in observer.pods.store.list().items]
        end(admin, kube_namespace, old)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        [new] = scheduled(observer)

    assert beside == [old]
    assert new != old
    assert storages.lock("data") == Lock.of(waiting)


async def test_a_pod_that_replaces_a_deleted_one_waits_until_that_has_ended(
    world: UnitWorld, observer: Observer, kube_namespace: str, storages: Storages, silent_node: str
) -> None:
    admin = world.access.admin()
    storages.make("data")
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", **mounts("data"), gpu=1, gpuType=silent_node)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        [old] = scheduled(observer)
        say(admin, kube_namespace, old, "Running", ready=True, state=RUNNING)
        await observer.ready(key)

        admin.delete(f"/api/v1/namespaces/{kube_namespace}/pods/{old}")
        await observer.pods.until(lambda _: bool(refused_by_the_scheduler(observer)))
        [new] = refused_by_the_scheduler(observer)
        beside = scheduled(observer)
        still_there = ObjectKey(kube_namespace, old) in observer.pods.store
        end(admin, kube_namespace, old)
        await observer.pods.until(lambda _: scheduled(observer) == [new])

    assert (beside, still_there) == ([], True)


async def test_a_deployment_that_was_deleted_without_its_pods_comes_back_and_adopts_them(
    world: UnitWorld, observer: Observer, kube_namespace: str, storages: Storages
) -> None:
    storages.make("data")
    async with world.operator():
        key = create_unit(world.access.admin(), kube_namespace, "demo", **mounts("data"))
        unit = await observer.ready(key)
        before = {pod.metadata.name for pod in observer.pods.store.list().items}
        deleted = deployment_of(observer, key).metadata.uid

        world.access.kubectl("delete", "deployment", child_of(key).name, "-n", kube_namespace, "--cascade=orphan")
        await observer.deployments.until(lambda store: is_another(store.get(child_of(key)), deleted))

    assert {pod.metadata.name for pod in observer.pods.store.list().items} == before
    assert storages.lock("data") == Lock.of(unit)


async def test_a_unit_that_is_gone_locks_and_starts_nothing_although_the_cache_shows_it(
    world: UnitWorld, kube_namespace: str, storages: Storages
) -> None:
    storages.make("data")
    key = create_unit(world.access.admin(), kube_namespace, "demo", **mounts("data"))
    async with Transport(from_kubeconfig(world.access.kubeconfig), user_agent="operator") as transport:
        cache, client = Cache(transport), Client(transport, field_manager="operator")
        caches = UnitCaches.of(cache, (kube_namespace,), (kube_namespace,))
        async with running(cache):
            await caches.storages.synced()
            cached = await client.get(GPUUnit, key.name, key.namespace)
            await client.delete(GPUUnit, key.name, key.namespace)
            fault = await UnitMounts(caches, lambda: NOW).fault(client, cached, is_live=True)
            create_unit(world.access.admin(), kube_namespace, "demo", **mounts("data"))
            of_namesake = await UnitMounts(caches, lambda: NOW).fault(client, cached, is_live=True)

    assert fault is not None
    assert fault.failure.message == "The unit is being deleted."
    assert of_namesake == fault
    assert storages.lock("data") is None


def refused_by_the_scheduler(observer: Observer) -> list[str]:
    """The names of the pods that the scheduler has found no node for."""
    found = ((pod, find_condition(pod.status.conditions, "PodScheduled")) for pod in observer.pods.store.list().items)
    return [pod.metadata.name for pod, said in found if said is not None and said.status == "False"]


def is_another(found: Deployment | None, uid: str) -> bool:
    """Whether it is not the Deployment of this UID, and has a pod."""
    return found is not None and found.metadata.uid != uid and found.status.available_replicas == 1


async def world_unit(observer: Observer, key: ObjectKey) -> GPUUnit:
    return await observer.until(key, "it is there", lambda _: True)


def pod(name: str, claim: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod that mounts a PersistentVolumeClaim, and that no node runs."""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    container = {"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    spec = {"containers": [container], "volumes": [volume], "schedulerName": "nobody"}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
