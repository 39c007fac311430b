"""Storages of units by requests, on a real control plane: one unit has a storage, and nothing is half-locked."""

from collections.abc import AsyncIterator, Iterator

import pytest

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import CREATE_GPU_UNIT
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
from tests.mount_scenes import Storages, mounting, storages_of
from tests.product_scenes import Observer, create_unit
from tests.service.service_scenes import Product, ServiceWorld, looking_at


@pytest.fixture
def storages(world: ServiceWorld) -> Iterator[Storages]:
    with storages_of(world.access.admin(), world.active) as made:
        yield made


@pytest.fixture
async def seen(world: ServiceWorld) -> AsyncIterator[Informer[GPUStorage]]:
    """An administrator's view of the storages."""
    async with looking_at(world.access, GPUStorage, world.active) as informer:
        yield informer


def holder(informer: Informer[GPUStorage], key: ObjectKey) -> Lock | None:
    found = informer.store.get(key)
    return None if found is None else lock_of(found.metadata)


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
    world: ServiceWorld, observer: Observer, storages: Storages, seen: Informer[GPUStorage]
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
        await seen.until(lambda _: holder(seen, storages.key("data")) is None)
        left = await world.admin.list(Pod, world.active)
        second = await create(product, world, "two", "data")
        await observer.ready(second.key)
        taken = storages.lock("data")

    assert locked == Lock.of(running)
    assert [
        volume.persistent_volume_claim.claim_name
        for volume in pods[0].spec.volumes[1:]
        if volume.persistent_volume_claim
    ] == ["data"]
    assert asked.writes(user=world.account.username) == []
    assert not [pod for pod in left.items if pod.metadata.name.startswith("unit-one")]
    assert taken == Lock.of(second)
    assert await world.writes_of_a_second_pass() == []


async def test_a_refused_request_leaves_no_lock_and_its_operation_id_free(
    world: ServiceWorld, storages: Storages
) -> None:
    for name in ("a", "b"):
        storages.make(name)
    storages.annotate("b", {"runtime.lokiwager.io/attached-to": "gpustorages/copy"})
    storages.make("copy")
    create_unit(world.access.admin(), world.active, "taken")
    async with world.product() as product:
        units = product.service.units
        await product.service.unit_reads.informer.until(lambda store: ObjectKey(world.active, "taken") in store)

        with pytest.raises(InvalidRequestError) as missing:
            await units.create("x", world.creates("demo", mounting("a", "nowhere"), cold_start=True))
        with pytest.raises(StorageInUseError, match="gpustorages/copy"):
            await units.create("x", world.creates("demo", mounting("a", "b"), cold_start=True))
        with pytest.raises(NameTakenError):
            await units.create("x", world.creates("taken", mounting("a"), cold_start=True))
        with pytest.raises(InsufficientCapacityError):
            await product.service.operations.perform("x", CREATE_GPU_UNIT, world.creates("demo", mounting("a")))
        with pytest.raises(StorageInUseError):
            wanted = world.creates("demo", mounting("a", "b"), cold_start=True)
            await product.service.operations.perform("x", CREATE_GPU_UNIT, wanted)
        free = storages.lock("a")
        made = await units.create("x", world.creates("demo", mounting("a"), cold_start=True))

    assert [found.path for found in missing.value.violations] == ["storageMounts[1].name"]
    assert free is None
    assert made.object is not None
    assert [operation.spec.operation_id for operation in await world.operations()] == ["x"]
