"""Hand-off from stock to an active unit and back, on a real control plane."""

import asyncio

import pytest
from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit, UnitAccess
from gpuruntime.api.names import (
    OPERATION_ID,
    REQUEST_HASH,
    SOURCE_STOCK_ANNOTATIONS,
    SOURCE_STOCK_NAME,
    SOURCE_STOCK_UID,
)
from gpuruntime.api.operation import DELETE_GPU_UNIT
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey
from gpuruntime.service.errors import (
    InsufficientCapacityError,
    InvalidRequestError,
    NameTakenError,
    ObjectNotFoundError,
    OperationConflictError,
    RefusedError,
)
from gpuruntime.service.objects.update import WriteResult
from gpuruntime.service.units.delete import DeleteUnit, stock_to_return
from tests.product_scenes import Observer, create_unit
from tests.service.service_scenes import NGINX, ServiceWorld, claimable, seeded


async def test_a_create_claims_the_oldest_stock_unit_and_the_delete_returns_it(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        names = await seeded(world, product, observer, 2)
        stock = (await world.units(world.stock))[names[0]]

        made = await product.service.units.create("order-1", world.creates("demo"))
        again = await product.service.units.create("order-1", world.creates("demo"))
        await observer.ready(ObjectKey(world.active, "demo"))
        await observer.units.until(lambda store: ObjectKey(world.stock, names[0]) not in store)
        left = sorted(await world.units(world.stock))
        gone = await product.service.units.delete("order-2", DeleteUnit("demo", world.active))
        await observer.ready(ObjectKey(world.stock, names[0]))

    assert made.object is not None
    assert again.object is not None
    assert (made.performed.is_replay, again.performed.is_replay) == (False, True)
    assert made.object.metadata.uid == again.object.metadata.uid
    assert made.object.metadata.annotations[SOURCE_STOCK_NAME] == names[0]
    assert made.object.metadata.annotations[SOURCE_STOCK_UID] == stock.metadata.uid
    assert made.object.metadata.annotations[OPERATION_ID] == "order-1"
    assert made.object.metadata.annotations[REQUEST_HASH]
    assert (made.object.spec.cpu, made.object.spec.memory, made.object.spec.image) == ("10m", "16Mi", "nginx")
    assert left == names[1:]
    assert gone.object is None
    assert await world.units(world.active) == {}
    assert sorted(await world.units(world.stock)) == sorted(names)
    assert all(operation.spec.request is None for operation in await world.operations())
    assert await world.writes_of_a_second_pass() == []


async def test_a_refused_create_leaves_no_claim_and_its_operation_id_free(
    world: ServiceWorld, observer: Observer
) -> None:
    create_unit(world.access.admin(), world.active, "taken")
    async with world.product() as product:
        units = product.service.units
        with pytest.raises(InsufficientCapacityError):
            await units.create("order-1", world.creates("demo"))
        names = await seeded(world, product, observer, 1)

        with pytest.raises(NameTakenError, match="taken"):
            await units.create("order-2", world.creates("taken"))
        wrong = evolve(NGINX, access=UnitAccess(primary_port="missing"))
        with pytest.raises(InvalidRequestError, match="primaryPort"):
            await units.create("order-3", world.creates("demo", wrong))
        with pytest.raises(InvalidRequestError, match="namespace"):
            await units.create("order-3", world.creates("demo", namespace="default"))
        with pytest.raises(ObjectNotFoundError, match="missing"):
            await units.delete("order-4", DeleteUnit("missing", world.active))
        await claimable(world, product, ObjectKey(world.stock, names[0]))
        made = await units.create("order-1", world.creates("demo"))
        await observer.ready(ObjectKey(world.active, "demo"))
        await observer.ready(ObjectKey(world.active, "taken"))
        with pytest.raises(OperationConflictError, match="'order-1'"):
            await units.create("order-1", world.creates("other"))

    ids = {operation.spec.operation_id for operation in await world.operations()}
    assert made.object is not None
    assert ids == {"seed", "order-1"}
    assert sorted(await world.units(world.active)) == ["demo", "taken"]
    assert await world.writes_of_a_second_pass() == []


async def test_a_unit_that_a_quota_refuses_releases_its_stock(world: ServiceWorld, observer: Observer) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/gpuunits.runtime.lokiwager.io": "0"}}}
    world.access.admin().create(f"/api/v1/namespaces/{world.active}/resourcequotas", quota)
    async with world.product() as product:
        names = await seeded(world, product, observer, 1)

        with pytest.raises(RefusedError):
            await product.service.units.create("order", world.creates("demo"))

    stock = await world.units(world.stock)
    assert sorted(stock) == names
    assert claim_of(stock[names[0]].metadata) is None
    assert {operation.spec.operation_id for operation in await world.operations()} == {"seed"}


async def test_a_stock_unit_that_cannot_be_claimed_does_not_block_the_others(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        first, second = await seeded(world, product, observer, 2)
        # The API server takes no more than 256 KiB of annotations: there is no room left for a claim.
        full = MergePatch({"metadata": {"annotations": {"example.com/notes": "x" * (255 * 1024 + 600)}}})
        await world.admin.patch(GPUUnit, first, world.stock, full)

        made = await product.service.units.create("order", world.creates("demo"))

    assert made.object is not None
    assert made.object.metadata.annotations[SOURCE_STOCK_NAME] == second
    assert first in await world.units(world.stock)


async def test_a_cold_start_takes_no_stock_and_returns_none(world: ServiceWorld, observer: Observer) -> None:
    cold = world.creates("demo", evolve(NGINX, cpu="20m", memory="32Mi"), cold_start=True)
    async with world.product() as product:
        names = await seeded(world, product, observer, 1)

        made = await product.service.units.create("cold", cold)
        await observer.ready(ObjectKey(world.active, "demo"))
        deleted = await product.service.units.delete("bye", DeleteUnit("demo", world.active))
        replayed = await product.service.units.create("cold", cold)
        again = await product.service.units.delete("bye", DeleteUnit("demo", world.active))

    assert made.object is not None
    assert provenance_of(made.object.metadata) is None
    assert made.object.spec.cpu == "20m"
    assert (deleted.performed.is_replay, again.performed.is_replay) == (False, True)
    assert (replayed.object, replayed.performed.is_replay) == (None, True)
    assert sorted(await world.units(world.stock)) == sorted(names)
    assert await world.units(world.active) == {}


async def test_two_replicas_under_load_hand_out_every_stock_unit_once(world: ServiceWorld, observer: Observer) -> None:
    async with world.product(name="one") as one, world.product(name="two") as two:
        for name in await seeded(world, one, observer, 4):
            await claimable(world, two, ObjectKey(world.stock, name))
        replicas = (one.service.units, two.service.units)

        answers = await asyncio.gather(
            *(
                replicas[turn % 2].create(f"order-{number}", world.creates(f"unit-{number}"))
                for number in range(6)
                for turn in (number, number + 1)
            ),
            return_exceptions=True,
        )
        await observer.units.until(lambda store: not store.list(world.stock).items)
        for name in await world.units(world.active):
            await observer.ready(ObjectKey(world.active, name))

    made = [answer for answer in answers if isinstance(answer, WriteResult)]
    refused = [answer for answer in answers if not isinstance(answer, WriteResult)]
    active = (await world.units(world.active)).values()
    sources = {source.uid for unit in active if (source := provenance_of(unit.metadata)) is not None}
    assert (len(made), len(refused)) == (8, 4)
    assert all(isinstance(error, InsufficientCapacityError) for error in refused)
    assert sum(answer.performed.is_replay for answer in made) == 4
    assert (len(active), len(sources)) == (4, 4)
    assert await world.writes_of_a_second_pass() == []


async def test_a_late_second_delete_does_not_create_stock_again_that_was_consumed_meanwhile(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        units, operations = product.service.units, product.service.operations
        names = await seeded(world, product, observer, 1)
        seed = (await world.units(world.stock))[names[0]]
        made = await units.create("order-1", world.creates("demo"))
        assert made.object is not None
        await observer.units.until(lambda store: ObjectKey(world.stock, names[0]) not in store)
        asked = DeleteUnit("demo", world.active)
        late = evolve(asked, uid=made.object.metadata.uid, returned=stock_to_return(made.object))
        await units.delete("bye-1", asked)
        await claimable(world, product, ObjectKey(world.stock, names[0]))
        back = (await world.units(world.stock))[names[0]]
        await units.create("order-2", world.creates("other"))
        await observer.units.until(lambda store: ObjectKey(world.stock, names[0]) not in store)

        await operations.perform("bye-2", DELETE_GPU_UNIT, asked, stored=late, within=20)

    assert back.metadata.annotations == seed.metadata.annotations
    assert set(seed.metadata.annotations) == set(SOURCE_STOCK_ANNOTATIONS)
    assert sorted(await world.units(world.active)) == ["other"]
    assert await world.units(world.stock) == {}
