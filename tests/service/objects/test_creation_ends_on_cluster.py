"""What was announced, not ended, and then deleted: nobody makes it again."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID, REQUEST_HASH
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import CREATE_GPU_UNIT, CREATE_STOCKPOOL, SUCCEEDED, Operation, OperationResult
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.control import write_status
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import FrozenDict, ObjectMeta
from gpuruntime.service.objects.creation_ends import end_creation
from gpuruntime.service.objects.delete import POOL_REMOVAL, RemoveObject
from gpuruntime.service.operations.lease import EndedError, OperationLease
from gpuruntime.service.operations.record import ended, taken
from gpuruntime.service.operations.requests import DeleteUnit
from gpuruntime.service.operations.worker import Work
from gpuruntime.service.pools import CreatePool, PoolCreation
from gpuruntime.service.stock.claim import StockClaims
from gpuruntime.service.stock.ready_stock import ReadyStock
from gpuruntime.service.units.handoff import UnitCreation, active_unit
from tests.product_scenes import Observer
from tests.service.service_scenes import QUICK, ServiceWorld, looking_at, seeded

Holding = Callable[[Operation], OperationLease]
ME = "me"


@pytest.fixture
async def holding(world: ServiceWorld) -> AsyncIterator[Holding]:
    """Takes Operations into the hand of a process that lives."""
    async with Transport(from_kubeconfig(world.access.kubeconfig), user_agent="t") as transport:
        yield lambda operation: OperationLease(
            operation, transport, owner=ME, began=0.0, field_manager="t", timing=QUICK, clock=lambda: 0.0
        )


async def test_a_unit_that_is_deleted_before_its_dead_creator_said_so_is_not_created_again(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        names = await seeded(world, product, observer, 2)
        request = world.creates("demo")
        operation = await world.abandon("order", CREATE_GPU_UNIT, request)
        made = await world.admin.create(active_unit(request, operation, None))

        await product.service.units.delete("bye", DeleteUnit("demo", world.active))
        done = await world.ended(product, "order")

    assert done.status.result == OperationResult("GPUUnit", "demo", world.active, made.metadata.uid)
    assert (done.status.state, done.status.attempts) == (SUCCEEDED, None)
    assert await world.units(world.active) == {}
    assert sorted(await world.units(world.stock)) == names


async def test_a_pool_that_is_deleted_before_its_dead_creator_said_so_is_not_created_again(world: ServiceWorld) -> None:
    request = CreatePool("warm", StockPoolSpec("g1.1", 0), world.stock)
    async with world.product() as product:
        operation = await world.abandon("order", CREATE_STOCKPOOL, request)
        marks = FrozenDict({OPERATION_ID: "order", REQUEST_HASH: operation.spec.request_hash})
        metadata = ObjectMeta(name="warm", namespace=world.stock, annotations=marks)
        made = await world.admin.create(StockPool(metadata, request.spec))

        await product.service.removals.remove(POOL_REMOVAL, "bye", RemoveObject("warm", world.stock))
        done = await world.ended(product, "order")

    assert done.status.result == OperationResult("StockPool", "warm", world.stock, made.metadata.uid)
    assert (await world.admin.list(StockPool, world.stock)).items == ()


async def test_a_creator_that_lives_finds_its_operation_ended_and_leaves_it_so(
    world: ServiceWorld, holding: Holding
) -> None:
    request = world.creates("demo")
    fresh = await world.abandon("order", CREATE_GPU_UNIT, request)
    operation = await write_status(world.admin, fresh, taken(fresh.status, ME, datetime.now(UTC)))
    assert operation is not None
    made = await world.admin.create(active_unit(request, operation, None))
    creating, deleting = holding(operation), holding(await world.abandon("bye", "delete_gpu_unit", request))

    await end_creation(deleting, made)
    with pytest.raises(EndedError, match="has ended"):
        await creating.confirm()
    await creating.end(result=OperationResult("GPUUnit", "demo"))

    left = {found.spec.operation_id: found for found in await world.operations()}["order"]
    assert (left.status.state, left.status.owner, left.spec.request) == (SUCCEEDED, ME, None)
    assert left.status.result == OperationResult("GPUUnit", "demo", world.active, made.metadata.uid)


@pytest.mark.parametrize("kind", [CREATE_GPU_UNIT, CREATE_STOCKPOOL])
async def test_whoever_took_over_just_before_the_deletion_makes_nothing(
    world: ServiceWorld, holding: Holding, kind: str
) -> None:
    pool = CreatePool("warm", StockPoolSpec("g1.1", 0), world.stock)
    request = pool if kind == CREATE_STOCKPOOL else world.creates("demo", cold_start=True)
    fresh = await world.abandon("order", kind, request)
    operation = await write_status(world.admin, fresh, taken(fresh.status, ME, datetime.now(UTC)))
    assert operation is not None
    over = ended(operation.status, datetime.now(UTC), result=OperationResult("it", "demo"), error=None)
    await write_status(world.admin, operation, over)

    async with looking_at(world.access, GPUUnit, world.active) as units:
        works: tuple[Work, ...] = (
            UnitCreation(
                StockClaims(units.store, ReadyStock(units, Namespaces()), lambda: datetime.now(UTC)), units.store
            ),
            PoolCreation(),
        )
        work = {work.type: work for work in works}[kind]
        with pytest.raises(EndedError, match="has ended"):
            await work.run(holding(operation))

    assert await world.units(world.active) == {}
    assert (await world.admin.list(StockPool, world.stock)).items == ()
