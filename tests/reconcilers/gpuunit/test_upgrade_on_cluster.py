"""An operator that renders differently than the last one restarts no pod; a request for the new rendering does."""

from typing import Any

from gpuruntime.meta import ObjectKey
from tests.product_scenes import UNITS, Observer, create_unit, eventually, settled
from tests.reconcilers.unit_scenes import UnitWorld, deployment_of, rolled_out

NEWER: dict[str, Any] = {"stock_image": "newer/stock", "default_image": "newer/default"}
ASKED = "runtime.lokiwager.io/render-on"


async def test_an_upgrade_with_another_rendering_writes_nothing_and_restarts_no_pod(
    world: UnitWorld, observer: Observer, kube_namespace: str, stock_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        keys = [create_unit(admin, namespace, "demo") for namespace in (kube_namespace, stock_namespace)]
        for key in keys:
            await observer.ready(key)
        await settled(world.access, operator.controller)
    before = pods_of(observer)

    writes = await world.writes_of_a_second_pass(len(keys), **NEWER)

    assert writes == []
    assert pods_of(observer) == before


async def test_drift_is_repaired_against_the_rendering_that_a_unit_has(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo")
        await observer.ready(key)
        await settled(world.access, operator.controller)

    world.access.kubectl("set", "image", "deployment/unit-demo", "runtime-worker=theirs", "-n", kube_namespace)
    async with world.operator(**NEWER) as operator:
        await rolled_out(observer, key, 3)
        await settled(world.access, operator.controller)
        # A status may wait for a moment, to be told together with the next one.
        await eventually(lambda: not len(operator.controller.queue))

    assert image_of(observer, key) == "busybox:1.36"
    assert await world.writes_of_a_second_pass(**NEWER) == []


async def test_the_new_rendering_comes_on_request_and_with_the_next_change_of_the_spec(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    changes: dict[str, Any] = {
        "on-request": {"metadata": {"annotations": {ASKED: "2026-01-01"}}},
        "with-the-spec": {"spec": {"template": {"args": ["sleep", "9"]}}},
    }
    async with world.operator() as operator:
        keys = [create_unit(admin, kube_namespace, name) for name in changes]
        for key in keys:
            await observer.ready(key)
        await settled(world.access, operator.controller)
    before = pods_of(observer)

    async with world.operator(**NEWER) as operator:
        for name, change in changes.items():
            admin.merge(f"{UNITS.format(kube_namespace)}/{name}", change)
        for key in keys:
            await rolled_out(observer, key, 2)
        await settled(world.access, operator.controller)
        await eventually(lambda: not len(operator.controller.queue))  # see above

    assert [image_of(observer, key) for key in keys] == ["newer/default"] * 2
    assert not pods_of(observer) & before
    assert await world.writes_of_a_second_pass(len(keys), **NEWER) == []


def image_of(observer: Observer, key: ObjectKey) -> str | None:
    return deployment_of(observer, key).spec.template.spec.containers[0].image


def pods_of(observer: Observer) -> set[str]:
    return {pod.metadata.uid for pod in observer.pods.store.list().items}
