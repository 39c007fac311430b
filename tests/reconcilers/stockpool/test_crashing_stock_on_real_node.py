"""Stock that is ready for a moment and then crashes, on a node that runs containers."""

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.placement import UnitToleration
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.control import Change
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.meta import FrozenDict
from gpuruntime.testing.images import ImageStore
from tests.product_scenes import Observer
from tests.service.conftest import observer, world
from tests.service.service_scenes import ServiceWorld
from tests.testing.node.pods import BUSYBOX

__all__ = ["observer", "world"]

pytestmark = [pytest.mark.real_node, pytest.mark.soak]
REAL_NODE = "gpuruntime.local/real-node"


@pytest.mark.timeout(300)
async def test_stock_that_lives_for_five_seconds_stops_the_refill_as_a_missing_image_does(
    world: ServiceWorld, observer: Observer, kube_images: ImageStore
) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    ready: dict[str, int] = {}

    def count(change: Change[GPUUnit]) -> None:
        before, after = change.before, change.after
        if after is not None and is_ready_stock(after) and (before is None or not is_ready_stock(before)):
            ready[after.metadata.name] = ready.get(after.metadata.name, 0) + 1

    await observer.units.subscribe(count)
    async with world.product(min_ready_seconds=3):
        await world.make_pool(
            1,
            image=BUSYBOX,
            cpu="200m",
            node_selector=FrozenDict({REAL_NODE: "true"}),
            tolerations=(UnitToleration(key=REAL_NODE, operator="Exists"),),
            template=UnitTemplate(command=("sh", "-c", "sleep 5; echo no licence >&2; exit 3")),
        )
        await world.pool_because(reasons.POD_STARTUP_FAILED, "next retry at", within=90)
        stopped = await world.pool_because(reasons.REFILL_STOPPED, "exit code 3: no licence", within=240)

    assert (stopped.status.failures, stopped.status.available) == (3, 0)
    assert set(ready.values()) <= {1}
