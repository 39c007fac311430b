"""Hand-offs on a full node that runs containers, and the end of a program that is not made for it."""

from typing import Any, Final

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnitSpec
from gpuruntime.api.placement import UnitToleration
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.control import Informer, Store
from gpuruntime.kube.builtin.events import Event
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import FrozenDict, ObjectKey
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.testing.images import ImageStore
from tests.product_scenes import Observer, ready_reason
from tests.service.service_scenes import Product, ServiceWorld, looking_at
from tests.testing.node.pods import BUSYBOX

pytestmark = pytest.mark.real_node
REAL_NODE: Final = "gpuruntime.local/real-node"
PYTHON: Final = "handoff-test/python:1"
PLACE: Final[dict[str, Any]] = {
    "cpu": "50m",
    "memory": "32Mi",
    "node_selector": FrozenDict({REAL_NODE: "true"}),
    "tolerations": (UnitToleration(key=REAL_NODE, operator="Exists"),),
}
SMALL: Final = GPUUnitSpec("g1.1", image=BUSYBOX)
LARGE: Final = GPUUnitSpec("g2.1", image=BUSYBOX)
SIGTERM_CODE: Final = 128 + 15


@pytest.fixture(scope="module", autouse=True)
def images(kube_images: ImageStore) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    kube_images.add(PYTHON, base="python")


@pytest.mark.parametrize(
    "rounds", [1, pytest.param(17, id="51 claims", marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
async def test_claims_in_a_row_on_a_full_node_preempt_nothing_and_a_cold_start_preempts_idle_stock(
    world: ServiceWorld, observer: Observer, rounds: int
) -> None:
    orders = {"small-0": SMALL, "large": LARGE, "small-1": SMALL}
    async with world.product() as product, looking_at(world.access, Event, world.stock) as events:
        await world.make_pool(2, "small", gpu=1, **PLACE)
        await world.make_pool(1, "large", spec_name="g2.1", gpu=2, **PLACE)

        for number in range(rounds):
            await stock_is_claimable(world, product, 3)
            for name, spec in orders.items():
                await product.service.units.create(f"order-{name}-{number}", world.creates(name, spec))
            for name in orders:
                await observer.ready(ObjectKey(world.active, name))
            for name in orders:
                await product.service.units.delete(f"return-{name}-{number}", DeleteUnit(name, world.active))
        await stock_is_claimable(world, product, 3)
        before = preempted(events)
        cold = GPUUnitSpec("g1.1", gpu=1, image=BUSYBOX, **PLACE)
        await product.service.units.create("order-cold", world.creates("cold", cold, cold_start=True))
        await observer.ready(ObjectKey(world.active, "cold"))
        # The scheduler sends its events in order: none that came before this one is missing.
        await events.until(lambda _: bool(preempted(events)))

    assert (before, len(preempted(events))) == ([], 1)


async def test_a_program_without_a_handler_of_sigterm_ends_by_it(world: ServiceWorld, observer: Observer) -> None:
    serve = UnitTemplate(command=("python", "-m", "http.server", "8080"))
    spec = GPUUnitSpec("g1.1", image=PYTHON, template=serve, termination_grace_period_seconds=600, **PLACE)
    async with world.product() as product:
        await product.service.units.create("order", world.creates("web", spec, cold_start=True))
        await observer.ready(ObjectKey(world.active, "web"))

        await product.service.units.delete("return", DeleteUnit("web", world.active))
        await observer.pods.until(lambda store: bool(exit_codes(store, world.active)))

    assert exit_codes(observer.pods.store, world.active) == [SIGTERM_CODE]


def exit_codes(store: Store[Pod], namespace: str) -> list[int]:
    """The exit codes of containers that have ended."""
    statuses = [status for pod in store.list(namespace).items for status in pod.status.container_statuses]
    ended = [status.state.terminated for status in statuses]
    return [state.exit_code for state in ended if state is not None]


async def stock_is_claimable(world: ServiceWorld, product: Product, number: int) -> None:
    """Returns when the product can claim this number of stock units, and there are no others."""
    await product.service.unit_reads.informer.until(
        lambda store: [ready_reason(unit) for unit in store.list(world.stock).items] == [reasons.STOCK_READY] * number
    )


def preempted(events: Informer[Event]) -> list[str]:
    """The pods that the scheduler has preempted."""
    return [event.regarding.name or "" for event in events.store.list().items if event.reason == "Preempted"]
