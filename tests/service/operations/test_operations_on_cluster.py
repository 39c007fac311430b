"""Operations on a real API server: who works on them, until when, and what is left of them."""

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
from gpuruntime.service.operations.lease import LostHoldError, OperationLease, Outcome
from gpuruntime.service.operations.record import LeaseTiming, ended, taken
from gpuruntime.service.operations.requests import DeleteUnit
from gpuruntime.service.operations.worker import OperationRunner
from tests.product_scenes import Observer
from tests.service.service_scenes import QUICK, ServiceWorld, build_product, claimable, looking_at, seeded

NOW = datetime.now(UTC)
IMPATIENT = LeaseTiming(lease=2.0, renew=1.5, period=0.5)


async def test_what_was_begun_is_finished_although_the_caller_went_away(
    world: ServiceWorld, observer: Observer
) -> None:
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


async def test_a_batch_that_is_refused_says_so_in_its_job_and_is_made_when_it_is_sent_again(
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


async def test_what_is_long_ended_is_forgotten_and_a_request_that_was_left_behind_is_dropped(
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


async def test_a_process_that_is_not_running_takes_no_requests(world: ServiceWorld) -> None:
    product = build_product(from_kubeconfig(world.account.kubeconfig), world.active, world.stock)

    with pytest.raises(NotRunningError, match="this process is starting or stopping"):
        await product.service.stock.seed("batch-1", world.seeds(1))

    assert await world.operations() == ()


async def test_a_hold_that_ran_out_writes_nothing_and_one_that_was_taken_over_is_lost(world: ServiceWorld) -> None:
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    credentials = from_kubeconfig(world.access.kubeconfig)
    time = 100.0

    async with Transport(credentials, user_agent="tests") as transport:

        def hold(began: float, owner: str) -> OperationLease:
            return OperationLease(
                operation, transport, owner=owner, began=began, field_manager="t", timing=QUICK, clock=lambda: time
            )

        late, early = hold(time - QUICK.renew, "a dead process"), hold(time, "a dead process")
        with pytest.raises(NotLeaderError, match="not sent"):
            await late.end(result=OperationResult("GPUUnit", "demo"))
        await early.report(1, 2)
        await write_status(world.admin, operation, taken(operation.status, "another", NOW))
        with pytest.raises(LostHoldError, match="is in other hands"):
            await early.end(result=OperationResult("GPUUnit", "demo"))
        with pytest.raises(NotLeaderError, match="not sent"):
            await early.withdraw()

    left = (await world.operations())[0]
    assert (left.status.owner, left.status.attempts, left.status.result) == ("another", 2, None)


class Losing:
    """A work during which the Operation gets into other hands."""

    type: ClassVar = CREATE_GPU_UNIT

    async def run(self, hold: OperationLease) -> Outcome:
        raise LostHoldError(f"operation {hold.operation.spec.operation_id} is in other hands")


async def test_whoever_waits_for_an_operation_that_was_lost_hears_that_it_will_be_finished(world: ServiceWorld) -> None:
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    credentials = from_kubeconfig(world.access.kubeconfig)
    async with Transport(credentials, user_agent="tests") as transport:
        hold = OperationLease(
            operation, transport, owner="me", began=0.0, field_manager="t", timing=QUICK, clock=lambda: 0.0
        )

        await OperationRunner([Losing()]).carry_out(hold)

    with pytest.raises(NotFinishedError, match="will be finished later"):
        hold.outcome.result()


async def test_a_request_that_cannot_be_read_fails_for_good_and_is_not_tried_for_ever(world: ServiceWorld) -> None:
    await world.abandon("order-1", CREATE_GPU_UNIT, world.seeds(1))

    async with world.product() as product:
        done = await world.ended(product, "order-1")

    assert (done.status.state, done.status.attempts) == (FAILED, 2)
    assert done.status.error is not None
    assert "has a request that cannot be read" in done.status.error.message


async def test_a_unit_that_is_deleted_before_its_hand_over_ends_gives_its_stock_back_once(
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
