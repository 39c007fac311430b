"""What a unit made goes with it, whatever it lost; what only looks like it is never touched."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gpuruntime.api import reasons
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import AdminClient
from tests.product_scenes import UNITS, Observer, create_unit, rested, settled
from tests.reconcilers.unit_scenes import UnitWorld, child_of

PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Service": "/api/v1/namespaces/{}/services",
}
TEMPLATE = {"ports": [{"name": "http", "port": 8080}]}
LOSSES: dict[str, dict[str, Any]] = {
    "owner": {"ownerReferences": None},
    "labels": {"labels": None},
    "both": {"ownerReferences": None, "labels": None},
}
POD_TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
SPECS: dict[str, dict[str, Any]] = {
    "Deployment": {"selector": {"matchLabels": {"app": "x"}}, "template": POD_TEMPLATE},
    "Service": {"selector": {"app": "x"}, "ports": [{"port": 1}]},
}
OWNER_UID = "runtime.lokiwager.io/owner-uid"
OWNER = "runtime.lokiwager.io/owner"
NO_OWNER = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("when", ["while no operator runs", "after the deletion", "while the operator runs"])
async def test_what_a_deleted_unit_made_goes_also_what_lost_its_owner_reference_or_its_labels(
    when: str, world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        keys = {name: create_unit(admin, kube_namespace, name, template=TEMPLATE) for name in LOSSES}
        for key in keys.values():
            await observer.ready(key)
        await settled(world.access, operator.controller)
        if when == "while the operator runs":
            for name, key in keys.items():
                strip(admin, key, LOSSES[name])
                admin.delete(f"{UNITS.format(kube_namespace)}/{name}")
            assert await left_over(observer) == []
    if when != "while the operator runs":
        for name, key in keys.items():
            if when == "while no operator runs":
                strip(admin, key, LOSSES[name])
            # Whoever deletes it like this asks Kubernetes to take the owner references off.
            admin.request("DELETE", f"{UNITS.format(kube_namespace)}/{name}?propagationPolicy=Orphan")
        await observer.units.until(lambda store: not len(store))
        async with world.operator():
            assert await left_over(observer) == []


async def test_a_child_that_lost_its_owner_reference_and_labels_gets_them_back(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo", template=TEMPLATE)
        await observer.ready(key)
        before = {kind: read(admin, kind, child_of(key)) for kind in PATHS}
        strip(admin, key, LOSSES["both"])
        await settled(world.access, operator.controller)

    for kind, was in before.items():
        metadata = read(admin, kind, child_of(key))["metadata"]
        assert metadata["uid"] == was["metadata"]["uid"]
        assert metadata.get("ownerReferences") == was["metadata"]["ownerReferences"]
        assert metadata.get("labels") == was["metadata"]["labels"]
    assert await world.writes_of_a_second_pass() == []


async def test_an_orphan_of_any_name_is_counted_and_removed(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    orphans = {
        "unit-former": {OWNER_UID: NO_OWNER, OWNER: "gpuunits.runtime.lokiwager.io/former"},
        "unit-nameless": {OWNER_UID: NO_OWNER},
        "of-another-name": {OWNER_UID: NO_OWNER, OWNER: "gpuunits.runtime.lokiwager.io/former"},
        "of-no-name": {OWNER_UID: NO_OWNER},
    }
    for name, annotations in orphans.items():
        for kind in PATHS:
            make(admin, kind, ObjectKey(kube_namespace, name), annotations=annotations)
    theirs = make(admin, "Deployment", ObjectKey(kube_namespace, "theirs"))

    for informer in (observer.deployments, observer.services):
        await informer.until(lambda store: {key.name for key in store} >= orphans.keys())

    async with world.operator() as operator:
        left = await left_over(observer, orphans.__contains__)
        await rested(operator.controller)
        counted = {
            kind: operator.manager.observability.registry.get_sample_value(
                "gpuruntime_unit_orphans_removed_total", {"kind": kind}
            )
            for kind in PATHS
        }

    assert left == []
    assert read(admin, "Deployment", ObjectKey(kube_namespace, "theirs"))["spec"] == theirs["spec"]
    assert counted == {"Deployment": 4, "Service": 4}


async def test_what_a_former_unit_of_the_name_left_goes_before_the_next_one_makes_its_own(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    left = {OWNER_UID: NO_OWNER, OWNER: "gpuunits.runtime.lokiwager.io/demo"}
    former = {kind: make(admin, kind, ObjectKey(kube_namespace, "unit-demo"), annotations=left) for kind in PATHS}
    key = create_unit(admin, kube_namespace, "demo", template=TEMPLATE)

    async with world.operator():
        await observer.ready(key)

    unit = admin.get(f"{UNITS.format(kube_namespace)}/demo")
    for kind, was in former.items():
        metadata = read(admin, kind, child_of(key))["metadata"]
        assert metadata["uid"] != was["metadata"]["uid"]
        assert metadata["annotations"][OWNER_UID] == unit["metadata"]["uid"]


@pytest.mark.parametrize("kind", list(PATHS))
async def test_what_merely_has_the_name_is_named_and_never_touched(
    kind: str, world: UnitWorld, kube_namespace: str
) -> None:
    admin = world.access.admin()
    keys = {name: create_unit(admin, kube_namespace, name, template=TEMPLATE) for name in ("plain", "alike", "others")}
    living = {key.name: admin.get(f"{UNITS.format(kube_namespace)}/{key.name}") for key in keys.values()}
    ours = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "name": "alike",
        "uid": living["alike"]["metadata"]["uid"],
        "controller": True,
    }
    theirs = {
        "plain": make(admin, kind, child_of(keys["plain"])),
        "alike": make(
            admin,
            kind,
            child_of(keys["alike"]),
            labels={"runtime.lokiwager.io/unit": "alike", "app.kubernetes.io/managed-by": "gpu-runtime-operator"},
            ownerReferences=[ours],
        ),
        "others": make(
            admin, kind, child_of(keys["others"]), annotations={OWNER_UID: living["plain"]["metadata"]["uid"]}
        ),
    }

    async with world.operator() as operator:
        await settled(world.access, operator.controller)
        await rested(operator.controller, len(keys))
        reported = {name: ready_of(admin.get(f"{UNITS.format(kube_namespace)}/{name}")) for name in keys}
        seen = {name: read(admin, kind, child_of(key)) for name, key in keys.items()}
        for name in ("plain", "others"):
            admin.delete(f"{UNITS.format(kube_namespace)}/{name}")
        await settled(world.access, operator.controller)
        last = {name: read(admin, kind, child_of(keys[name])) for name in ("plain",)}

    assert {name: ready["reason"] for name, ready in reported.items()} == dict.fromkeys(keys, reasons.FOREIGN_OBJECT)
    assert all(f"{kind} {kube_namespace}/unit-{name} " in ready["message"] for name, ready in reported.items())
    assert {name: version(each) for name, each in seen.items()} == {
        name: version(each) for name, each in theirs.items()
    }
    assert version(last["plain"]) == version(theirs["plain"])


def strip(admin: AdminClient, unit: ObjectKey, loss: dict[str, Any]) -> None:
    for path in PATHS.values():
        admin.merge(f"{path.format(unit.namespace)}/unit-{unit.name}", {"metadata": loss})


def make(admin: AdminClient, kind: str, key: ObjectKey, **metadata: Any) -> Any:
    return admin.create(
        PATHS[kind].format(key.namespace), {"metadata": {"name": key.name, **metadata}, "spec": SPECS[kind]}
    )


def read(admin: AdminClient, kind: str, key: ObjectKey) -> Any:
    return admin.get(f"{PATHS[kind].format(key.namespace)}/{key.name}")


def ready_of(unit: Any) -> Any:
    return next(each for each in unit["status"]["conditions"] if each["type"] == "Ready")


def version(obj: Any) -> tuple[Any, ...]:
    """What changes if a client other than a controller of Kubernetes writes an object."""
    metadata = obj["metadata"]
    annotations = {
        name: value for name, value in metadata.get("annotations", {}).items() if "kubernetes.io" not in name
    }
    return metadata["uid"], obj["spec"], metadata.get("labels"), metadata.get("ownerReferences"), annotations


async def left_over(observer: Observer, wanted: Callable[[str], bool] = bool) -> list[str]:
    """The children that still exist when it is clear that they are not deleted."""
    informers = (observer.deployments, observer.services)
    try:
        # A garbage collector that has only just heard of the kind takes half a minute.
        async with asyncio.timeout(150):
            for informer in informers:
                await informer.until(lambda store: not any(wanted(key.name) for key in store))
    except TimeoutError:
        pass
    return [
        f"{informer.scope.storage.kind.kind} {key.name}"
        for informer in informers
        for key in informer.store
        if wanted(key.name)
    ]
