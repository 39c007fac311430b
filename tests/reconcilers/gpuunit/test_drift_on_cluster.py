"""Additions by hand to what is wholly a unit's own: mended, whatever they are; and an unchanged unit costs no write."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import pytest

from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import AdminClient
from tests.control.foreign_edits import Path, edit
from tests.product_scenes import Observer, create_unit, settled
from tests.reconcilers.unit_scenes import UnitWorld

PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Service": "/api/v1/namespaces/{}/services",
}
POD: Path = ("spec", "template", "spec")
WORKER: Path = (*POD, "containers", 0)
EVIL = {"name": "evil", "image": "evil"}

# Where something is added or changed, and what. The library has the whole table: see
# tests/control/writing/test_foreign_edits_on_cluster.py.
DRIFTS: list[tuple[str, Path, Any]] = [
    ("Deployment", (*POD, "hostNetwork"), True),
    ("Deployment", (*WORKER, "securityContext"), {"privileged": True}),
    ("Deployment", (*POD, "containers", "-"), EVIL),
    ("Deployment", (*POD, "initContainers"), [EVIL]),
    ("Deployment", (*POD, "nodeSelector"), {"kubernetes.io/os": "linux"}),
    ("Deployment", (*POD, "tolerations"), [{"operator": "Exists"}]),
    ("Deployment", (*POD, "volumes", "-"), {"name": "evil", "hostPath": {"path": "/"}}),
    ("Deployment", (*WORKER, "env", "-"), {"name": "LD_PRELOAD", "value": "evil.so"}),
    ("Deployment", ("spec", "template", "metadata", "annotations"), {"evil.example.org/in": "x"}),
    ("Deployment", ("spec", "minReadySeconds"), 5),
    ("Service", ("spec", "externalIPs"), ["198.51.100.1"]),
    ("Service", ("spec", "sessionAffinity"), "ClientIP"),
    ("Service", ("spec", "ipFamilyPolicy"), "PreferDualStack"),
    ("Service", ("spec", "type"), "NodePort"),
]
UNITS = 4
TEMPLATE = {"ports": [{"name": "http", "port": 8080}], "env": [{"name": "A", "value": "1"}]}


@pytest.mark.parametrize("when", ["while the operator runs", "while no operator runs"])
async def test_whatever_is_added_by_hand_to_what_is_wholly_ours_is_mended(
    when: str, world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        keys = [create_unit(admin, kube_namespace, f"demo-{number}", template=TEMPLATE) for number in range(UNITS)]
        for key in keys:
            await observer.ready(key)
        before = [read_specs(admin, key) for key in keys]
        if when == "while the operator runs":
            drift(admin, keys)
            await settled(world.access, operator.controller)
            assert [read_specs(admin, key) for key in keys] == before
    if when == "while no operator runs":
        drift(admin, keys)
    async with world.operator() as operator:
        await settled(world.access, operator.controller)
        assert [read_specs(admin, key) for key in keys] == before
        await observer.deployments.until(lambda store: all(map(is_rolled_out, store.list().items)))
        await settled(world.access, operator.controller)

    assert await world.writes_of_a_second_pass(UNITS) == []


async def test_what_others_may_add_stays(world: UnitWorld, observer: Observer, kube_namespace: str) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo", template=TEMPLATE)
        await observer.ready(key)
        place = f"{PATHS['Deployment'].format(kube_namespace)}/unit-demo"
        restart = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
        guest = {"labels": {"guest": "x"}, "annotations": {"guest.example.org/x": "x"}}

        admin.merge(place, {"metadata": guest, "spec": {"template": {"metadata": {"annotations": restart}}}})
        await settled(world.access, operator.controller)
        await observer.deployments.until(lambda store: all(map(is_rolled_out, store.list().items)))
        await settled(world.access, operator.controller)
        left = admin.get(place)

    assert left["spec"]["template"]["metadata"]["annotations"] == restart
    assert left["metadata"]["labels"].items() >= guest["labels"].items()
    assert left["metadata"]["annotations"].items() >= guest["annotations"].items()
    assert await world.writes_of_a_second_pass() == []


async def test_a_start_among_many_unchanged_units_writes_nothing_and_asks_little(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        for number in range(24):
            template = {
                "ports": [{"name": "http", "port": 8000 + number % 2}],
                "env": [{"name": "N", "value": str(number)}],
            }
            create_unit(admin, kube_namespace, f"demo-{number}", template=template)
        for number in range(24):
            await observer.ready(ObjectKey(kube_namespace, f"demo-{number}"))
        await settled(world.access, operator.controller)

    with world.audit.recording() as seen:
        writes = await world.writes_of_a_second_pass(24)

    asked = [request for request in seen.requests if request.user == world.account.username]
    rehearsed = [request for request in asked if request.verb == "update"]
    assert writes == []
    # One for each kind and each of the workers that meet it at the same time, not one for each unit.
    assert len(rehearsed) <= 4 * 8


def drift(admin: AdminClient, keys: Sequence[ObjectKey]) -> None:
    for key, (kind, place, value) in zip(cycle(keys), DRIFTS, strict=False):
        edit(admin, f"{PATHS[kind].format(key.namespace)}/unit-{key.name}", place, value)


def is_rolled_out(deployment: Deployment) -> bool:
    status = deployment.status
    counts = (status.observed_generation, status.replicas, status.available_replicas)
    return counts == (deployment.metadata.generation, 1, 1)


def read_specs(admin: AdminClient, key: ObjectKey) -> dict[str, Any]:
    return {kind: admin.get(f"{path.format(key.namespace)}/unit-{key.name}")["spec"] for kind, path in PATHS.items()}
