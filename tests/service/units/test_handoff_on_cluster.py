"""From stock to an active unit and back, on a real control plane."""

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
from gpuruntime.service.operations.requests import DeleteUnit, Envelope
from gpuruntime.service.units.delete import stock_to_return
from gpuruntime.service.units.lifecycle import UnitAnswer
from tests.product_scenes import Observer, create_unit
from tests.service.service_scenes import ServiceWorld, seeded


async def test_a_claim_turns_the_oldest_stock_unit_into_an_active_one_and_the_delete_gives_it_back(
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

    assert made.unit is not None
    assert again.unit is not None
    assert (made.performed.is_replay, again.performed.is_replay) == (False, True)
    assert made.unit.metadata.uid == again.unit.metadata.uid
    assert made.unit.metadata.annotations[SOURCE_STOCK_NAME] == names[0]
    assert made.unit.metadata.annotations[SOURCE_STOCK_UID] == stock.metadata.uid
    assert made.unit.metadata.annotations[OPERATION_ID] == "order-1"
    assert made.unit.metadata.annotations[REQUEST_HASH]
    assert (made.unit.spec.cpu, made.unit.spec.memory, made.unit.spec.image) == ("10m", "16Mi", "nginx")
    assert left == names[1:]
    assert gone.unit is None
    assert await world.units(world.active) == {}
    assert sorted(await world.units(world.stock)) == names
    assert all(operation.spec.request is None for operation in await world.operations())
    assert await world.writes_of_a_second_pass() == []


async def test_what_cannot_be_made_leaves_no_claim_and_does_not_use_up_its_operation_id(
    world: ServiceWorld, observer: Observer
) -> None:
    create_unit(world.access.admin(), world.active, "taken")
    async with world.product() as product:
        units = product.service.units
        with pytest.raises(InsufficientCapacityError, match="that is ready and that nobody has claimed, found none"):
            await units.create("order-1", world.creates("demo"))
        names = await seeded(world, product, observer, 1)

        with pytest.raises(NameTakenError, match="exists already and was made by another request"):
            await units.create("order-2", world.creates("taken"))
        with pytest.raises(InvalidRequestError, match="primaryPort"):
            await units.create("order-3", world.creates("demo", access=UnitAccess(primary_port="nowhere")))
        with pytest.raises(InvalidRequestError, match="namespace"):
            await units.create("order-3", world.creates("demo", namespace="default"))
        with pytest.raises(ObjectNotFoundError, match="found none"):
            await units.delete("order-4", DeleteUnit("nobody", world.active))
        await observer.ready(ObjectKey(world.stock, names[0]))
        made = await units.create("order-1", world.creates("demo"))
        await observer.ready(ObjectKey(world.active, "demo"))
        await observer.ready(ObjectKey(world.active, "taken"))
        with pytest.raises(OperationConflictError, match="exists already with another request"):
            await units.create("order-1", world.creates("other"))

    ids = {operation.spec.operation_id for operation in await world.operations()}
    assert made.unit is not None
    assert ids == {"seed", "order-1"}
    assert sorted(await world.units(world.active)) == ["demo", "taken"]
    assert await world.writes_of_a_second_pass() == []


async def test_what_the_cluster_refuses_gives_its_stock_back(world: ServiceWorld, observer: Observer) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/gpuunits.runtime.lokiwager.io": "0"}}}
    world.access.admin().create(f"/api/v1/namespaces/{world.active}/resourcequotas", quota)
    async with world.product() as product:
        names = await seeded(world, product, observer, 1)

        with pytest.raises(RefusedError, match="was refused"):
            await product.service.units.create("order", world.creates("demo"))

    stock = await world.units(world.stock)
    assert sorted(stock) == names
    assert claim_of(stock[names[0]].metadata) is None
    assert {operation.spec.operation_id for operation in await world.operations()} == {"seed"}


async def test_a_stock_unit_that_cannot_be_claimed_does_not_stand_before_those_that_can(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        first, second = await seeded(world, product, observer, 2)
        # The API server takes no more than 256 KiB of annotations: there is no room left for a claim.
        full = MergePatch({"metadata": {"annotations": {"example.com/notes": "x" * (255 * 1024 + 600)}}})
        await world.admin.patch(GPUUnit, first, world.stock, full)

        made = await product.service.units.create("order", world.creates("demo"))

    assert made.unit is not None
    assert made.unit.metadata.annotations[SOURCE_STOCK_NAME] == second
    assert first in await world.units(world.stock)


async def test_a_cold_start_takes_no_stock_and_gives_none_back(world: ServiceWorld, observer: Observer) -> None:
    envelope = Envelope("g1.1", cpu="20m", memory="32Mi")
    async with world.product() as product:
        names = await seeded(world, product, observer, 1)

        made = await product.service.units.create("cold", world.creates("demo", cold_start=True, envelope=envelope))
        await observer.ready(ObjectKey(world.active, "demo"))
        deleted = await product.service.units.delete("bye", DeleteUnit("demo", world.active))
        replayed = await product.service.units.create("cold", world.creates("demo", cold_start=True, envelope=envelope))
        again = await product.service.units.delete("bye", DeleteUnit("demo", world.active))

    assert made.unit is not None
    assert provenance_of(made.unit.metadata) is None
    assert made.unit.spec.cpu == "20m"
    assert (deleted.performed.is_replay, again.performed.is_replay) == (False, True)
    assert (replayed.unit, replayed.performed.is_replay) == (None, True)
    assert sorted(await world.units(world.stock)) == names
    assert await world.units(world.active) == {}


async def test_two_replicas_under_fire_hand_out_every_stock_unit_once(world: ServiceWorld, observer: Observer) -> None:
    async with world.product(name="one") as one, world.product(name="two") as two:
        await seeded(world, one, observer, 6)
        replicas = (one.service.units, two.service.units)

        answers = await asyncio.gather(
            *(
                replicas[turn % 2].create(f"order-{number}", world.creates(f"unit-{number}"))
                for number in range(8)
                for turn in (number, number + 1)
            ),
            return_exceptions=True,
        )
        await observer.units.until(lambda store: not store.list(world.stock).items)
        for name in await world.units(world.active):
            await observer.ready(ObjectKey(world.active, name))

    made = [answer for answer in answers if isinstance(answer, UnitAnswer)]
    refused = [answer for answer in answers if not isinstance(answer, UnitAnswer)]
    active = (await world.units(world.active)).values()
    sources = {source.uid for unit in active if (source := provenance_of(unit.metadata)) is not None}
    assert (len(made), len(refused)) == (12, 4)
    assert all(isinstance(error, InsufficientCapacityError) for error in refused)
    assert sum(answer.performed.is_replay for answer in made) == 6
    assert (len(active), len(sources)) == (6, 6)
    assert await world.writes_of_a_second_pass() == []


async def test_a_second_delete_that_comes_late_does_not_make_stock_again_that_was_consumed_meanwhile(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        units, operations = product.service.units, product.service.operations
        names = await seeded(world, product, observer, 1)
        seed = (await world.units(world.stock))[names[0]]
        made = await units.create("order-1", world.creates("demo"))
        assert made.unit is not None
        await observer.units.until(lambda store: ObjectKey(world.stock, names[0]) not in store)
        asked = DeleteUnit("demo", world.active)
        late = evolve(asked, uid=made.unit.metadata.uid, returned=stock_to_return(made.unit))
        await units.delete("bye-1", asked)
        await observer.ready(ObjectKey(world.stock, names[0]))
        back = (await world.units(world.stock))[names[0]]
        await units.create("order-2", world.creates("other"))
        await observer.units.until(lambda store: ObjectKey(world.stock, names[0]) not in store)

        await operations.perform("bye-2", DELETE_GPU_UNIT, asked, stored=late, within=20)

    assert back.metadata.annotations == seed.metadata.annotations
    assert set(seed.metadata.annotations) == set(SOURCE_STOCK_ANNOTATIONS)
    assert sorted(await world.units(world.active)) == ["other"]
    assert await world.units(world.stock) == {}
