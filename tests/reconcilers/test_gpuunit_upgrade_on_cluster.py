"""An operator that renders differently than the last one restarts no pod; a request for the new rendering does."""

from typing import Any

import pytest

from gpuruntime.meta import ObjectKey
from tests.product_scenes import UNITS, Onlooker, create_unit, eventually, settled
from tests.reconcilers.unit_scenes import UnitWorld, deployment_of, is_rolled_out

NEWER: dict[str, Any] = {"stock_image": "newer/stock", "default_image": "newer/default"}
ASKED = "runtime.lokiwager.io/render-on"


async def test_an_upgrade_with_another_rendering_writes_nothing_and_restarts_no_pod(
    world: UnitWorld, onlooker: Onlooker, kube_namespace: str, stock_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        keys = [create_unit(admin, namespace, "demo") for namespace in (kube_namespace, stock_namespace)]
        for key in keys:
            await onlooker.ready(key)
        await settled(world.access, operator.controller)
    before = pods_of(onlooker)

    writes = await world.writes_of_a_second_pass(len(keys), **NEWER)

    assert writes == []
    assert pods_of(onlooker) == before


async def test_drift_is_repaired_against_the_rendering_that_a_unit_has(
    world: UnitWorld, onlooker: Onlooker, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo")
        await onlooker.ready(key)
        await settled(world.access, operator.controller)

    world.access.kubectl("set", "image", "deployment/unit-demo", "runtime-worker=theirs", "-n", kube_namespace)
    async with world.operator(**NEWER) as operator:
        await onlooker.deployments.until(lambda _: is_rolled_out(onlooker, key, 3))
        await settled(world.access, operator.controller)
        # A status may wait for a moment, to be told together with the next one.
        await eventually(lambda: not len(operator.controller.queue))

    assert image_of(onlooker, key) == "busybox:1.36"
    assert await world.writes_of_a_second_pass(**NEWER) == []


@pytest.mark.parametrize(
    "change",
    [{"metadata": {"annotations": {ASKED: "2026-01-01"}}}, {"spec": {"template": {"args": ["sleep", "9"]}}}],
    ids=["on request", "with the spec"],
)
async def test_the_new_rendering_comes_on_request_and_with_the_next_change_of_the_spec(
    change: dict[str, Any], world: UnitWorld, onlooker: Onlooker, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo")
        await onlooker.ready(key)
        await settled(world.access, operator.controller)
    before = pods_of(onlooker)

    async with world.operator(**NEWER) as operator:
        admin.merge(f"{UNITS.format(kube_namespace)}/demo", change)
        await onlooker.deployments.until(lambda _: is_rolled_out(onlooker, key, 2))
        await settled(world.access, operator.controller)

    assert image_of(onlooker, key) == "newer/default"
    assert pods_of(onlooker) != before
    assert await world.writes_of_a_second_pass(**NEWER) == []


def image_of(onlooker: Onlooker, key: ObjectKey) -> str | None:
    return deployment_of(onlooker, key).spec.template.spec.containers[0].image


def pods_of(onlooker: Onlooker) -> set[str]:
    return {pod.metadata.uid for pod in onlooker.pods.store.list().items}
