"""Objects of others in the way, and writes that the server refuses: left alone, named, and tried again."""

from typing import Any

import pytest

from gpuruntime.api import reasons
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import AdminClient
from tests.product_scenes import UNITS, Observer, create_unit, settled
from tests.reconcilers.unit_scenes import UnitWorld, child_of

PORTS = [{"name": "http", "port": 8080}]
TEMPLATE = {"metadata": {"labels": {"app": "theirs"}}, "spec": {"containers": [{"name": "c", "image": "theirs"}]}}
THEIRS: dict[str, dict[str, Any]] = {
    "Deployment": {"selector": {"matchLabels": {"app": "theirs"}}, "template": TEMPLATE},
    "Service": {"selector": {"app": "theirs"}, "ports": [{"port": 1}]},
}
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Service": "/api/v1/namespaces/{}/services",
}


async def test_a_foreign_object_is_left_alone_and_named_until_it_is_gone(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    paths = {kind: f"{path.format(kube_namespace)}/unit-{kind.lower()}" for kind, path in PATHS.items()}
    theirs = {
        kind: admin.create(
            path.rpartition("/")[0], {"metadata": {"name": f"unit-{kind.lower()}"}, "spec": THEIRS[kind]}
        )
        for kind, path in paths.items()
    }
    async with world.operator() as operator:
        keys = {kind: create_unit(admin, kube_namespace, kind.lower(), template={"ports": PORTS}) for kind in theirs}

        units = [
            await observer.because(key, reasons.FOREIGN_OBJECT, f"{kind} {kube_namespace}/unit-{kind.lower()} ")
            for kind, key in keys.items()
        ]
        await settled(world.access, operator.controller)
    second = await world.writes_of_a_second_pass(len(keys))
    after = {kind: admin.get(path) for kind, path in paths.items()}
    async with world.operator() as operator:
        for kind, key in keys.items():
            admin.delete(paths[kind])
            touch(admin, key)
            await observer.ready(key)
        await settled(world.access, operator.controller)

    assert [unit.status.phase for unit in units] == ["Failed", "Failed"]
    assert second == []
    assert {kind: (found["metadata"]["uid"], found["spec"]) for kind, found in after.items()} == {
        kind: (found["metadata"]["uid"], found["spec"]) for kind, found in theirs.items()
    }
    assert await world.writes_of_a_second_pass(len(keys)) == []


async def test_a_foreign_object_is_read_again_without_an_event(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    theirs = {"metadata": {"name": "unit-demo"}, "spec": THEIRS["Deployment"]}
    admin.create(PATHS["Deployment"].format(kube_namespace), theirs)
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo")

        await observer.because(key, reasons.FOREIGN_OBJECT)
        await settled(world.access, operator.controller)
        waiting = [view.key for view in operator.controller.queue.snapshot()]

    assert waiting == [key]
    assert operator.controller.counters.errors == 0


async def test_a_foreign_service_is_left_alone_when_no_service_is_wanted(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin, path = world.access.admin(), PATHS["Service"].format(kube_namespace)
    theirs = admin.create(path, {"metadata": {"name": "unit-demo"}, "spec": THEIRS["Service"]})
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo")

        unit = await observer.ready(key)

    assert unit.status.service_name is None
    assert admin.get(f"{path}/unit-demo")["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert await world.writes_of_a_second_pass() == []


@pytest.mark.parametrize(
    ("resource", "reason"),
    [("count/deployments.apps", reasons.DEPLOYMENT_SYNC_FAILED), ("services", reasons.SERVICE_SYNC_FAILED)],
)
async def test_a_child_that_the_server_refuses_is_in_the_status_until_it_is_accepted(
    resource: str, reason: str, world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    quotas = f"/api/v1/namespaces/{kube_namespace}/resourcequotas"
    admin.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {resource: "0"}}})
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo", template={"ports": PORTS})

        refused = await observer.because(key, reason, "exceeded quota: none")
        await settled(world.access, operator.controller)
    second = await world.writes_of_a_second_pass()
    async with world.operator() as operator:
        admin.delete(f"{quotas}/none")
        touch(admin, key)
        ready = await observer.ready(key)
        await settled(world.access, operator.controller)

    assert (refused.status.phase, refused.status.observed_generation) == ("Failed", None)
    assert second == []
    assert ready.status.observed_generation == 1
    assert await world.writes_of_a_second_pass() == []


async def test_children_that_lost_their_label_are_found_and_given_it_back(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin, label = world.access.admin(), "runtime.lokiwager.io/unit"
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo", template={"ports": PORTS})
        await observer.ready(key)
        await settled(world.access, operator.controller)
    for path in PATHS.values():
        admin.merge(f"{path.format(kube_namespace)}/unit-demo", {"metadata": {"labels": {label: None}}})
    made = observer.deployments.store.version_of(child_of(key))

    async with world.operator(default_image="something/newer") as operator:
        for informer in (observer.deployments, observer.services):
            await informer.until(lambda store: labels_of(store.get(child_of(key))).get(label) == "demo")
        await settled(world.access, operator.controller)

    deployment = observer.deployments.store.get(child_of(key))
    assert made is not None
    assert deployment is not None
    assert (deployment.metadata.uid, deployment.metadata.generation) == (made[0], 1)
    assert await world.writes_of_a_second_pass() == []


def labels_of(child: Any) -> dict[str, str]:
    return {} if child is None else dict(child.metadata.labels)


def touch(admin: AdminClient, key: ObjectKey) -> None:
    """Have the operator look at a unit now, instead of when its time has come."""
    admin.merge(f"{UNITS.format(key.namespace)}/{key.name}", {"metadata": {"annotations": {"looked-at": "again"}}})
