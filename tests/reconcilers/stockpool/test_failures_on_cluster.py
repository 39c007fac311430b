"""Stock that does not start, on a real control plane."""

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Store
from gpuruntime.meta import find_condition
from tests.product_scenes import Observer
from tests.reconcilers.pod_scenes import RUNNING, end, say, scheduled, silent_node
from tests.service.conftest import observer, world
from tests.service.service_scenes import ServiceWorld

__all__ = ["observer", "silent_node", "world"]


async def test_failing_stock_is_in_the_status_of_its_pool_and_is_replaced(
    world: ServiceWorld, observer: Observer, silent_node: str
) -> None:
    admin = world.access.admin()
    async with world.product():
        await world.make_pool(1, gpu=1, gpu_type=silent_node)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        (first,), (pod,) = await world.units(world.stock), scheduled(observer)

        say(admin, world.stock, pod, "Pending", ready=False, state={"waiting": {"reason": "ErrImagePull"}})
        failed = await world.pool_because(reasons.POD_STARTUP_FAILED, "ErrImagePull")
        await observer.units.until(lambda store: _is_replaced(_names(store, world.stock), first))
        await observer.pods.until(lambda _: _is_replaced(scheduled(observer), pod))
        (second,), (other,) = await world.units(world.stock), scheduled(observer)
        say(admin, world.stock, other, "Running", ready=True, state=RUNNING)
        filled = await world.pool_because(reasons.POOL_READY)

    assert first != second
    assert (failed.status.phase, failed.status.available) == ("Failed", 0)
    assert (filled.status.phase, filled.status.available, filled.status.last_serial) == ("Ready", 1, 2)
    assert await world.writes_of_a_second_pass() == []


async def test_stock_that_fails_makes_room_for_stock_that_finds_no_node(
    world: ServiceWorld, observer: Observer, silent_node: str
) -> None:
    admin = world.access.admin()
    async with world.product():
        await world.make_pool(2, gpu=8, gpu_type=silent_node)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        (pod,) = scheduled(observer)

        say(admin, world.stock, pod, "Pending", ready=False, state={"waiting": {"reason": "ErrImagePull"}})
        full = await world.pool_because(reasons.POD_STARTUP_FAILED, "1 are unschedulable")
        await observer.pods.until(lambda _: not scheduled(observer))
        end(admin, world.stock, pod)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        (other,) = scheduled(observer)
        say(admin, world.stock, other, "Running", ready=True, state=RUNNING)
        better = await world.pool_because(reasons.POOL_PROGRESSING, "1 of 2 stock units are ready; 1 are unschedulable")

    condition = find_condition(full.status.conditions, "Ready")
    assert condition is not None
    assert "1 failed" in (condition.message or "")
    assert (better.status.available, better.status.last_serial) == (1, 3)
    assert await world.writes_of_a_second_pass() == []


def _names(store: Store[GPUUnit], namespace: str) -> list[str]:
    return [unit.metadata.name for unit in store.list(namespace).items]


def _is_replaced(names: list[str], old: str) -> bool:
    """Whether one other is there and the old one is gone, which may take longer than the start of the new one."""
    return len(names) == 1 and names != [old]
