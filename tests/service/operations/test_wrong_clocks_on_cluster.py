"""Replicas whose wall clocks are wrong, on a real API server: retention goes by the server's time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from gpuruntime.api.operation import CREATE_GPU_UNIT, OperationResult, operation_name
from gpuruntime.control import write_status
from gpuruntime.meta import ObjectKey
from gpuruntime.meta.timestamps import parse_timestamp
from gpuruntime.service.operations.lease import drop_request
from gpuruntime.service.operations.record import ended
from tests.product_scenes import eventually
from tests.service.service_scenes import Product, ServiceWorld

_OFF: ContextVar[timedelta] = ContextVar("off", default=timedelta())


class WrongDatetime(datetime):
    """A wall clock that is wrong by the offset of `clock_off`."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "WrongDatetime":
        right = datetime.now(tz) + _OFF.get()
        return cls.fromisoformat(right.isoformat())


@pytest.fixture(autouse=True)
def wrong_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every module of the product reads the wrong clock."""
    for name, module in tuple(sys.modules.items()):
        if name.startswith("gpuruntime.") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", WrongDatetime)


@contextmanager
def clock_off(by: timedelta) -> Iterator[None]:
    """Tasks that start in the block have a wall clock that is wrong by this offset."""
    before = _OFF.set(by)
    try:
        yield
    finally:
        _OFF.reset(before)


async def ended_operation(world: ServiceWorld, operation_id: str) -> None:
    """An Operation that another replica, with a right clock, has just ended."""
    made = await world.abandon(operation_id, CREATE_GPU_UNIT, world.creates(operation_id))
    over = ended(made.status, datetime.now(UTC), result=OperationResult("GPUUnit", operation_id), error=None)
    written = await write_status(world.admin, made, over)
    assert written is not None
    await drop_request(world.admin, written)


async def reconciled(product: Product, world: ServiceWorld, operation_id: str) -> None:
    """Returns when the replica has reconciled an Operation."""
    controller = product.service.operation_controller
    await controller.informers[0].synced()
    runs = sum(controller.counters.results.values())
    controller.queue.add(ObjectKey(world.active, operation_name(operation_id)))
    await eventually(
        lambda: sum(controller.counters.results.values()) > runs and not controller.counters.active_workers
    )


@pytest.mark.parametrize("hours", [25, -25])
async def test_a_replica_with_a_wrong_clock_deletes_no_operation_early(world: ServiceWorld, hours: int) -> None:
    await ended_operation(world, "order-1")

    with clock_off(timedelta(hours=hours)):
        async with world.product() as product:
            await reconciled(product, world, "order-1")

    assert [found.spec.operation_id for found in await world.operations()] == ["order-1"]


@pytest.mark.parametrize("hours", [25, -25])
async def test_a_replica_with_a_wrong_clock_deletes_what_is_due(world: ServiceWorld, hours: int) -> None:
    await ended_operation(world, "order-1")

    with clock_off(timedelta(hours=hours)):
        async with world.product(keep=timedelta()) as product:
            await reconciled(product, world, "order-1")

    assert await world.operations() == ()


@pytest.mark.parametrize("hours", [25, -25])
async def test_an_operation_that_a_replica_with_a_wrong_clock_has_ended_is_kept_as_long_as_others(
    world: ServiceWorld, hours: int
) -> None:
    with clock_off(timedelta(hours=hours)):
        async with world.product() as wrong:
            await wrong.service.stock.seed("batch-1", world.seeds(1))
            await world.ended(wrong, "batch-1")
    async with world.product() as right:
        await reconciled(right, world, "batch-1")

    kept = await world.operations()
    assert [found.spec.operation_id for found in kept] == ["batch-1"]
    finished = parse_timestamp(kept[0].status.finished_at or "")
    assert abs(finished - parse_timestamp(kept[0].metadata.creation_timestamp or "")) < timedelta(minutes=5)
