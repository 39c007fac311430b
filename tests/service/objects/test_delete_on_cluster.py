"""An object that is deleted before the Operation that created it has ended is not created again."""

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
from gpuruntime.service.objects.delete import DeleteObject, end_creation
from gpuruntime.service.operations.executor import OperationHandler
from gpuruntime.service.operations.lease import OperationEndedError, OperationLease
from gpuruntime.service.operations.record import ended, taken_over
from gpuruntime.service.pools import POOL_CREATION, POOLS, CreatePool
from gpuruntime.service.stock.claim import ReadyStock, StockClaims
from gpuruntime.service.units.create import CreateUnitHandler, active_unit
from gpuruntime.service.units.delete import DeleteUnit
from tests.product_scenes import Observer
from tests.service.service_scenes import QUICK, ServiceWorld, looking_at, seeded

Leasing = Callable[[Operation], OperationLease]
ME = "me"


@pytest.fixture
async def leasing(world: ServiceWorld) -> AsyncIterator[Leasing]:
    """Acquires leases for a live process."""
    async with Transport(from_kubeconfig(world.access.kubeconfig), user_agent="t") as transport:
        yield lambda operation: OperationLease(
            operation, transport, owner=ME, began=0.0, field_manager="t", timing=QUICK, clock=lambda: 0.0
        )


async def test_a_unit_that_is_deleted_before_its_creation_ended_is_not_created_again(
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
    assert sorted(await world.units(world.stock)) == sorted(names)


async def test_a_pool_that_is_deleted_before_its_creation_ended_is_not_created_again(world: ServiceWorld) -> None:
    request = CreatePool("warm", StockPoolSpec("g1.1", replicas=0), world.stock)
    async with world.product() as product:
        operation = await world.abandon("order", CREATE_STOCKPOOL, request)
        marks = FrozenDict({OPERATION_ID: "order", REQUEST_HASH: operation.spec.request_hash})
        metadata = ObjectMeta(name="warm", namespace=world.stock, annotations=marks)
        made = await world.admin.create(StockPool(metadata, request.spec))

        await product.service.of(POOLS).delete("bye", DeleteObject("warm", world.stock))
        done = await world.ended(product, "order")

    assert done.status.result == OperationResult("StockPool", "warm", world.stock, made.metadata.uid)
    assert (await world.admin.list(StockPool, world.stock)).items == ()


async def test_a_live_owner_finds_its_operation_ended_and_leaves_it_so(world: ServiceWorld, leasing: Leasing) -> None:
    request = world.creates("demo")
    fresh = await world.abandon("order", CREATE_GPU_UNIT, request)
    operation = await write_status(world.admin, fresh, taken_over(fresh.status, ME, datetime.now(UTC)))
    assert operation is not None
    made = await world.admin.create(active_unit(request, operation, None))
    creating, deleting = leasing(operation), leasing(await world.abandon("bye", "delete_gpu_unit", request))

    await end_creation(deleting, made)
    with pytest.raises(OperationEndedError):
        await creating.confirm()
    await creating.end(result=OperationResult("GPUUnit", "demo"))

    left = {found.spec.operation_id: found for found in await world.operations()}["order"]
    assert (left.status.state, left.status.owner, left.spec.request) == (SUCCEEDED, ME, None)
    assert left.status.result == OperationResult("GPUUnit", "demo", world.active, made.metadata.uid)


@pytest.mark.parametrize("kind", [CREATE_GPU_UNIT, CREATE_STOCKPOOL])
async def test_a_takeover_just_before_the_deletion_creates_nothing(
    world: ServiceWorld, leasing: Leasing, kind: str
) -> None:
    pool = CreatePool("warm", StockPoolSpec("g1.1", replicas=0), world.stock)
    request = pool if kind == CREATE_STOCKPOOL else world.creates("demo", cold_start=True)
    fresh = await world.abandon("order", kind, request)
    operation = await write_status(world.admin, fresh, taken_over(fresh.status, ME, datetime.now(UTC)))
    assert operation is not None
    over = ended(operation.status, datetime.now(UTC), result=OperationResult("it", "demo"), error=None)
    await write_status(world.admin, operation, over)

    async with looking_at(world.access, GPUUnit, world.active) as units:
        handlers: tuple[OperationHandler, ...] = (
            CreateUnitHandler(
                StockClaims(units.store, ReadyStock(units, Namespaces()), lambda: datetime.now(UTC)), units.store
            ),
            POOL_CREATION,
        )
        handler = {handler.type: handler for handler in handlers}[kind]
        with pytest.raises(OperationEndedError):
            await handler.run(leasing(operation))

    assert await world.units(world.active) == {}
    assert (await world.admin.list(StockPool, world.stock)).items == ()
