"""Operations on a real API server: their owners, their leases, and their ends."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from gpuruntime.api.operation import CREATE_GPU_UNIT, FAILED, SUCCEEDED, Operation, OperationResult, operation_name
from gpuruntime.control import NotLeaderError, write_status
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import ObjectKey
from gpuruntime.service.errors import NotFinishedError, NotRunningError
from gpuruntime.service.operations.executor import OperationExecutor
from gpuruntime.service.operations.lease import LeaseLostError, OperationLease, Outcome
from gpuruntime.service.operations.record import LeaseTiming, ended, taken_over
from gpuruntime.service.units.delete import DeleteUnit
from tests.product_scenes import Observer
from tests.service.service_scenes import QUICK, ServiceWorld, build_product, claimable, looking_at, seeded

NOW = datetime.now(UTC)
IMPATIENT = LeaseTiming(lease=2.0, renew=1.5, period=0.5)


async def test_a_request_is_finished_although_its_caller_went_away(world: ServiceWorld, observer: Observer) -> None:
    async with world.product() as product:
        await seeded(world, product, observer, 1)
        async with looking_at(world.access, Operation, world.active) as operations:
            calling = asyncio.create_task(product.service.units.create("order-1", world.creates("demo")))
            name = ObjectKey(world.active, operation_name("order-1"))
            await operations.until(lambda store: name in store)
            calling.cancel()
            await asyncio.wait([calling])

            done = await world.ended(product, "order-1")

    assert done.status.state == SUCCEEDED
    assert sorted(await world.units(world.active)) == ["demo"]
    assert await world.units(world.stock) == {}


async def test_a_refused_batch_fails_its_job_and_is_seeded_when_the_request_is_sent_again(
    world: ServiceWorld, observer: Observer
) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/gpuunits.runtime.lokiwager.io": "0"}}}
    quotas = f"/api/v1/namespaces/{world.stock}/resourcequotas"
    world.access.admin().create(quotas, quota)
    async with world.product() as product:
        first = await product.service.stock.seed("batch-1", world.seeds(2))
        failed = await world.ended(product, "batch-1")

        world.access.admin().delete(f"{quotas}/none")
        await seeded(world, product, observer, 2, "batch-1")
        async with looking_at(world.access, Operation, world.active) as operations:
            await operations.until(lambda store: [found.status.state for found in store.list().items] == [SUCCEEDED])

    assert not first.is_replay
    assert failed.status.state == FAILED
    assert failed.status.error is not None
    assert "quota" in failed.status.error.message
    assert len(await world.units(world.stock)) == 2


async def test_old_operations_are_deleted_and_requests_that_a_dead_process_left_are_dropped(
    world: ServiceWorld,
) -> None:
    request, result = world.creates("demo"), OperationResult("GPUUnit", "demo")
    old = await world.abandon("old", CREATE_GPU_UNIT, request)
    await write_status(world.admin, old, ended(old.status, datetime.now(UTC), result=result, error=None))

    async with looking_at(world.access, Operation, world.active) as operations:
        async with world.product(timing=IMPATIENT, keep=timedelta(seconds=2)):
            await operations.until(lambda store: store.resource_version != "" and not len(store))
        new = await world.abandon("new", CREATE_GPU_UNIT, request)
        await write_status(world.admin, new, ended(new.status, datetime.now(UTC), result=result, error=None))
        async with world.product(timing=IMPATIENT):
            await operations.until(lambda store: [found.spec.request for found in store.list().items] == [None])

    assert [found.status.state for found in await world.operations()] == [SUCCEEDED]
    assert await world.writes_of_a_second_pass() == []


async def test_a_process_that_is_not_running_accepts_no_requests(world: ServiceWorld) -> None:
    product = build_product(from_kubeconfig(world.account.kubeconfig), world.active, world.stock)

    with pytest.raises(NotRunningError):
        await product.service.stock.seed("batch-1", world.seeds(1))

    assert await world.operations() == ()


async def test_an_expired_lease_writes_nothing_and_one_that_was_taken_over_is_lost(world: ServiceWorld) -> None:
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    credentials = from_kubeconfig(world.access.kubeconfig)
    time = 100.0

    async with Transport(credentials, user_agent="tests") as transport:

        def lease(began: float, owner: str) -> OperationLease:
            return OperationLease(
                operation, transport, owner=owner, began=began, field_manager="t", timing=QUICK, clock=lambda: time
            )

        late, early = lease(time - QUICK.renew, "a dead process"), lease(time, "a dead process")
        with pytest.raises(NotLeaderError):
            await late.end(result=OperationResult("GPUUnit", "demo"))
        await early.report_progress(1, 2)
        await write_status(world.admin, operation, taken_over(operation.status, "another", NOW))
        with pytest.raises(LeaseLostError, match="taken over"):
            await early.end(result=OperationResult("GPUUnit", "demo"))
        with pytest.raises(NotLeaderError):
            await early.withdraw()

    left = (await world.operations())[0]
    assert (left.status.owner, left.status.attempts, left.status.result) == ("another", 2, None)


class Losing:
    """A handler that loses its lease."""

    type: ClassVar = CREATE_GPU_UNIT

    async def run(self, lease: OperationLease) -> Outcome:
        raise LeaseLostError(f"operation {lease.operation.spec.operation_id} was taken over")


async def test_the_caller_of_an_operation_whose_lease_was_lost_gets_not_finished(world: ServiceWorld) -> None:
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    credentials = from_kubeconfig(world.access.kubeconfig)
    async with Transport(credentials, user_agent="tests") as transport:
        lease = OperationLease(
            operation, transport, owner="me", began=0.0, field_manager="t", timing=QUICK, clock=lambda: 0.0
        )

        await OperationExecutor(transport, [Losing()], field_manager="t", identity="me").execute(lease)

    with pytest.raises(NotFinishedError):
        lease.outcome.result()


async def test_an_unreadable_request_fails_and_is_not_retried(world: ServiceWorld) -> None:
    await world.abandon("order-1", CREATE_GPU_UNIT, world.seeds(1))

    async with world.product() as product:
        done = await world.ended(product, "order-1")

    assert (done.status.state, done.status.attempts) == (FAILED, 2)
    assert done.status.error is not None
    assert "cannot decode spec.request" in done.status.error.message


async def test_a_unit_that_is_deleted_before_its_hand_off_ends_returns_its_stock_once(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        names = await seeded(world, product, observer, 1)
        key = ObjectKey(world.stock, names[0])
        for number in range(3):
            await product.service.units.create(f"order-{number}", world.creates("demo"))
            await product.service.units.delete(f"return-{number}", DeleteUnit("demo", world.active))
            for operation_id in (f"order-{number}", f"return-{number}"):
                await world.ended(product, operation_id)
            await claimable(world, product, key)

    assert sorted(await world.units(world.stock)) == names
    assert await world.units(world.active) == {}
    assert await world.writes_of_a_second_pass() == []
