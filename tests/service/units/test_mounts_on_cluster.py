"""Storages of units by requests, on a real control plane: one unit has a storage, and nothing is half-locked."""

import asyncio

import pytest

from gpuruntime.api.gpustorage import READ_WRITE_MANY, GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import CREATE_GPU_UNIT, UPDATE_GPU_UNIT, Operation
from gpuruntime.control import Informer
from gpuruntime.desired.storage.locks import Lock, lock_of
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey, freeze
from gpuruntime.service.errors import (
    InsufficientCapacityError,
    InvalidRequestError,
    NameTakenError,
    StorageInUseError,
)
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.service.units.lifecycle import ACTIVE_UNITS
from tests.desired.pool_scenes import NOW
from tests.mount_scenes import Storages, mounting
from tests.product_scenes import Observer, create_unit
from tests.service.service_scenes import Product, ServiceWorld


def holder(informer: Informer[GPUStorage], key: ObjectKey) -> Lock | None:
    found = informer.store.get(key)
    return None if found is None else lock_of(found.metadata)


def claims_of(pod: Pod) -> list[str]:
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [source.claim_name for source in sources if source is not None]


def update(world: ServiceWorld, unit: str, *names: str) -> UpdateObject:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return UpdateObject(unit, world.active, freeze({"spec": {"storageMounts": mounts}}))


async def create(product: Product, world: ServiceWorld, unit: str, *names: str) -> GPUUnit:
    """The unit of a request for a cold start, with these storages."""
    request = world.creates(unit, mounting(*names), cold_start=True)
    made = await product.service.units.create(f"create-{unit}", request)
    assert made.object is not None
    return made.object


async def test_a_unit_has_its_storage_from_its_creation_until_its_pod_is_gone(
    world: ServiceWorld, observer: Observer, storages: Storages, seen_storages: Informer[GPUStorage]
) -> None:
    storages.make("data")
    async with world.product() as product:
        unit = await create(product, world, "one", "data")
        running = await observer.ready(unit.key)
        locked = storages.lock("data")
        with (
            world.audit.recording() as asked,
            pytest.raises(StorageInUseError, match=r"data is in use by gpuunits/one"),
        ):
            await create(product, world, "two", "data")
        pods = [pod for pod in observer.pods.store.list(world.active).items if pod.metadata.name.startswith("unit-one")]
        await product.service.units.delete("bye", DeleteUnit("one", world.active))
        await seen_storages.until(lambda _: holder(seen_storages, storages.key("data")) is None)
        left = await world.admin.list(Pod, world.active)
        second = await create(product, world, "two", "data")
        await observer.ready(second.key)
        taken = storages.lock("data")

    assert locked == Lock.of(running)
    assert [claims_of(pod) for pod in pods] == [["data"]]
    assert not {write.resource for write in asked.writes(user=world.account.username)} & {"operations", "gpustorages"}
    assert not [pod for pod in left.items if pod.metadata.name.startswith("unit-one")]
    assert taken == Lock.of(second)
    assert await world.writes_of_a_second_pass() == []


async def test_a_refused_request_leaves_no_lock_and_its_operation_id_free(
    world: ServiceWorld, storages: Storages
) -> None:
    for name in ("a", "b"):
        storages.make(name)
    async with world.product() as product:
        units, perform = product.service.units, product.service.operations.perform
        await create(product, world, "other", "b")

        with pytest.raises(InvalidRequestError) as missing:
            await units.create("x", world.creates("demo", mounting("a", "nowhere"), cold_start=True))
        with pytest.raises(StorageInUseError, match="gpuunits/other"):
            await units.create("x", world.creates("demo", mounting("a", "b"), cold_start=True))
        with pytest.raises(NameTakenError):
            await units.create("x", world.creates("other", mounting("a", "b"), cold_start=True))
        # Past the checks that spare a write.
        with pytest.raises(InsufficientCapacityError):
            await perform("x", CREATE_GPU_UNIT, world.creates("demo", mounting("a")))
        with pytest.raises(StorageInUseError):
            await perform("x", CREATE_GPU_UNIT, world.creates("demo", mounting("a", "b"), cold_start=True))
        with pytest.raises(NameTakenError):
            await perform("x", CREATE_GPU_UNIT, world.creates("other", mounting("a"), cold_start=True))
        free = storages.lock("a")
        made = await units.create("x", world.creates("demo", mounting("a"), cold_start=True))

    assert [found.path for found in missing.value.violations] == ["storageMounts[1].name"]
    assert free is None
    assert made.object is not None
    assert sorted(operation.spec.operation_id for operation in await world.operations()) == [
        "create-other",
        "x",
    ]


async def test_of_many_callers_of_two_replicas_one_gets_each_storage(
    world: ServiceWorld, observer: Observer, storages: Storages
) -> None:
    for name in ("a", "b"):
        storages.make(name)
    async with world.product(name="one") as one, world.product(name="two") as two:
        answers = await asyncio.gather(
            *(
                create(product, world, f"unit-{number}-{turn}", *names)
                for number, names in enumerate([("a", "b"), ("b", "a"), ("b",)])
                for turn, product in enumerate((one, two))
            ),
            return_exceptions=True,
        )
        made = [answer for answer in answers if isinstance(answer, GPUUnit)]
        for unit in made:
            await observer.ready(unit.key)
        locks = {name: storages.lock(name) for name in ("a", "b")}

    refused = [answer for answer in answers if not isinstance(answer, GPUUnit)]
    wanted = {mount.name: Lock.of(unit) for unit in made for mount in unit.spec.storage_mounts}
    assert all(isinstance(error, StorageInUseError) for error in refused), refused
    assert {name: lock for name, lock in locks.items() if lock is not None} == wanted
    assert sum(len(unit.spec.storage_mounts) for unit in made) == len(wanted)
    assert "b" in wanted
    assert await world.writes_of_a_second_pass() == []


async def test_an_update_locks_what_it_adds_and_frees_what_it_removes_when_the_old_pod_is_gone(
    world: ServiceWorld, observer: Observer, storages: Storages, seen_storages: Informer[GPUStorage]
) -> None:
    for name in ("a", "b", "c"):
        storages.make(name)
    async with world.product() as product:
        units = product.service.of(ACTIVE_UNITS)
        unit = await create(product, world, "demo", "a")
        await observer.ready(unit.key)
        await create(product, world, "other", "c")

        with pytest.raises(StorageInUseError, match="gpuunits/other"):
            await units.update("add-c", update(world, "demo", "a", "b", "c"))
        with pytest.raises(InvalidRequestError, match=r"storageMounts\[0\]\.name"):
            await units.update("add-x", update(world, "demo", "nowhere"))
        untouched = storages.lock("b")
        await units.update("swap", update(world, "demo", "b"))
        swapped = await observer.ready(unit.key, generation=2)
        await seen_storages.until(lambda _: holder(seen_storages, storages.key("a")) is None)
        moved = storages.lock("b")
        kept = await units.update("rename", UpdateObject("demo", world.active, freeze({"spec": {"image": "x:2"}})))
        await units.update("clear", update(world, "demo"))
        await seen_storages.until(lambda _: holder(seen_storages, storages.key("b")) is None)
        cleared = await observer.ready(unit.key, generation=4)

    assert untouched is None
    assert moved == Lock.of(swapped)
    assert kept.object is not None
    assert [mount.name for mount in kept.object.spec.storage_mounts] == ["b"]
    assert cleared.spec.storage_mounts == ()
    assert await world.writes_of_a_second_pass() == []


async def test_an_operation_that_died_after_its_locks_goes_on_with_them_and_a_void_lock_is_released(
    world: ServiceWorld, observer: Observer, storages: Storages, seen_storages: Informer[GPUStorage]
) -> None:
    for name in ("a", "b", "c", "d"):
        storages.make(name)
    alive = await world.abandon("alive", CREATE_GPU_UNIT, world.creates("demo", mounting("a", "b"), cold_start=True))
    gone = await world.abandon("gone", CREATE_GPU_UNIT, world.creates("never", mounting("c"), cold_start=True))
    running = create_unit(world.access.admin(), world.active, "running", image="nginx")
    found = await world.admin.get(GPUUnit, running.name, running.namespace)
    change = UpdateObject("running", world.active, update(world, "running", "d").change, uid=found.metadata.uid)
    updating = await world.abandon("updating", UPDATE_GPU_UNIT, change)
    for name, lock in {
        "a": Lock("gpuunits/demo", "", alive.metadata.name, alive.metadata.uid),
        "c": Lock("gpuunits/never", "", gone.metadata.name, gone.metadata.uid),
        "d": Lock("gpuunits/running", found.metadata.uid, updating.metadata.name, updating.metadata.uid),
    }.items():
        storages.annotate(name, lock.annotations(NOW))
    await world.admin.delete(Operation, gone.metadata.name, world.active)

    async with world.product() as product:
        await world.ended(product, "alive")
        await world.ended(product, "updating")
        demo = await observer.ready(ObjectKey(world.active, "demo"))
        changed = await observer.ready(running, generation=2)
        await seen_storages.until(lambda _: holder(seen_storages, storages.key("c")) is None)

    assert (storages.lock("a"), storages.lock("b")) == (Lock.of(demo), Lock.of(demo))
    assert storages.lock("d") == Lock.of(changed)
    assert await world.writes_of_a_second_pass() == []


async def test_any_number_of_units_can_read_a_storage_of_many_nodes(
    world: ServiceWorld, observer: Observer, storages: Storages, seen_storages: Informer[GPUStorage]
) -> None:
    storages.make("model", READ_WRITE_MANY)
    async with world.product() as product:
        writer = await create(product, world, "writer", "model")
        await observer.ready(writer.key)
        readers = []
        for name in ("one", "two"):
            request = world.creates(name, mounting("model", read_only=True), cold_start=True)
            await product.service.units.create(f"create-{name}", request)
            readers.append(await observer.ready(ObjectKey(world.active, name)))
        with pytest.raises(StorageInUseError):
            await create(product, world, "second", "model")

        await product.service.units.delete("bye", DeleteUnit("writer", world.active))
        await seen_storages.until(lambda _: holder(seen_storages, storages.key("model")) is None)

    assert len(readers) == 2
    assert await world.writes_of_a_second_pass() == []
