"""The status says why a unit is not ready, on a real control plane; and that it recovers.

kwok plays nodes on which everything goes well. What a kubelet would say of pods that do not start is written into their
status here, on a node that nobody plays.
"""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from gpuruntime.api import reasons
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.testing import AdminClient, NodeShape
from tests.product_scenes import UNITS, Observer, create_unit, settled
from tests.reconcilers.pod_scenes import RUNNING, say, scheduled, silent_node
from tests.reconcilers.unit_scenes import UnitWorld

__all__ = ["silent_node"]


def crash(message: str, reason: str = "Error", code: int = 1) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}}


# What a kubelet says, and the reason and a part of the message that a unit shows.
FAILURES: list[tuple[dict[str, Any], str, str]] = [
    (
        {"state": {"waiting": {"reason": "ErrImagePull", "message": "nowhere/x:1: not found"}}},
        reasons.IMAGE_PULL_FAILED,
        "nowhere/x:1: not found",
    ),
    (
        {"state": BACK_OFF, "lastState": crash("cannot bind port 80"), "restartCount": 3},
        reasons.CRASH_LOOPING,
        "cannot bind port 80",
    ),
    (
        {"state": BACK_OFF, "lastState": crash("", "OOMKilled", 137), "restartCount": 2},
        reasons.OUT_OF_MEMORY,
        "3 times",
    ),
    (
        {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}}},
        reasons.POD_STARTUP_FAILED,
        'secret "s" not found',
    ),
]


async def test_a_container_that_does_not_start_is_in_the_status_until_it_does(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    admin, number = world.access.admin(), len(FAILURES)
    async with world.operator() as operator:
        keys = [
            create_unit(admin, kube_namespace, f"demo-{index}", gpu=1, gpuType=silent_node) for index in range(number)
        ]
        await observer.pods.until(lambda _: len(scheduled(observer)) == number)
        pods = sorted(scheduled(observer))

        for pod, (state, _, _) in zip(pods, FAILURES, strict=True):
            say(admin, kube_namespace, pod, "Pending", ready=False, **state)
        failed = [
            await observer.because(key, reason, words) for key, (_, reason, words) in zip(keys, FAILURES, strict=True)
        ]
        await settled(world.access, operator.controller)
    second = await world.writes_of_a_second_pass(number)
    async with world.operator() as operator:
        for pod in pods:
            say(admin, kube_namespace, pod, "Running", ready=True, state=RUNNING)
        for key in keys:
            await observer.ready(key)
        await settled(world.access, operator.controller)

    assert {(unit.status.phase, unit.status.ready_replicas) for unit in failed} == {("Failed", 0)}
    assert second == []
    assert await world.writes_of_a_second_pass(number) == []


async def test_the_pod_of_a_unit_whose_name_is_too_long_for_a_label_is_found(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "x" * 100, gpu=1, gpuType=silent_node)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        await settled(world.access, operator.controller)
        (pod,) = scheduled(observer)

        say(admin, kube_namespace, pod, "Pending", ready=False, state={"waiting": {"reason": "InvalidImageName"}})
        await observer.because(key, reasons.IMAGE_PULL_FAILED, "InvalidImageName")
        await settled(world.access, operator.controller)

    assert await world.writes_of_a_second_pass() == []


async def test_a_unit_that_no_node_takes_has_the_scheduler_s_words_and_an_event_says_the_same(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", gpu=1, gpuType="no-such-product")

        unit = await observer.because(key, reasons.UNSCHEDULABLE, "nodes are available")

    condition = find_condition(unit.status.conditions, "Ready")
    assert condition is not None
    assert unit.status.phase == "Progressing"
    # The scheduler counts nodes, and those of other tests come and go.
    assert ("Warning", reasons.UNSCHEDULABLE, condition.message) in events_of(admin, key)
    assert await world.writes_of_a_second_pass() == []


async def test_a_quota_that_leaves_no_room_is_named_until_there_is_room(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    quota = f"/api/v1/namespaces/{kube_namespace}/resourcequotas"
    admin.create(quota, {"metadata": {"name": "tight"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}})
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo", gpu=1)

        unit = await observer.because(key, reasons.QUOTA_EXCEEDED, "exceeded quota: tight")
        await settled(world.access, operator.controller)
    second = await world.writes_of_a_second_pass()
    async with world.operator() as operator:
        admin.delete(f"{quota}/tight")
        await observer.ready(key)
        await settled(world.access, operator.controller)

    assert unit.status.phase == "Failed"
    assert second == []
    assert await world.writes_of_a_second_pass() == []


async def test_a_pod_that_admission_refuses_is_in_the_status_with_the_servers_message(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    async with world.operator(active_priority_class="no-such-class"):
        key = create_unit(admin, kube_namespace, "demo")

        unit = await observer.because(key, reasons.ADMISSION_REFUSED, "no PriorityClass with name no-such-class")

    assert unit.status.phase == "Failed"
    assert await world.writes_of_a_second_pass(active_priority_class="no-such-class") == []


async def test_a_rollout_that_takes_too_long_says_what_it_waits_for(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    admin = world.access.admin()
    async with world.operator(progress_deadline_seconds=2) as operator:
        key = create_unit(admin, kube_namespace, "demo", gpu=1, gpuType=silent_node)

        unit = await observer.because(key, reasons.PROGRESS_DEADLINE_EXCEEDED, "waiting for its containers to start")
        await settled(world.access, operator.controller)

    assert unit.status.phase == "Failed"
    assert await world.writes_of_a_second_pass(progress_deadline_seconds=2) == []


async def test_a_lost_node_is_named_until_it_is_back(
    world: UnitWorld, observer: Observer, kube_namespace: str, kube_nodes: Callable[[NodeShape], None]
) -> None:
    admin, name = world.access.admin(), f"gpu-{uuid.uuid4().hex[:8]}"
    kube_nodes(NodeShape(name, product=name))
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo", gpu=1, gpuType=name)
        await observer.ready(key)
        (pod,) = scheduled(observer)

        play(admin, name, None)
        say_of_node(admin, name, "Unknown", "NodeStatusUnknown")
        say(admin, kube_namespace, pod, "Running", ready=False, state=RUNNING)
        await observer.because(key, reasons.NODE_LOST, f"its node {name} is not ready: NodeStatusUnknown")
        # The pod of a lost node is counted until its Deployment has seen that it is not ready.
        await observer.units.until(lambda store: any(unit.status.ready_replicas == 0 for unit in store.list().items))
        await settled(world.access, operator.controller)
        lost = await observer.because(key, reasons.NODE_LOST)
    second = await world.writes_of_a_second_pass()
    async with world.operator() as operator:
        say_of_node(admin, name, "True", "KubeletReady")
        await observer.because(key, reasons.UNIT_PROGRESSING)
        say(admin, kube_namespace, pod, "Running", ready=True, state=RUNNING)
        await observer.ready(key)
        await settled(world.access, operator.controller)

    assert (lost.status.phase, lost.status.ready_replicas) == ("Failed", 0)
    assert second == []
    assert await world.writes_of_a_second_pass() == []


@pytest.mark.soak
async def test_a_node_that_stops_answering_is_named_as_soon_as_kubernetes_gives_it_up(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo", gpu=1, gpuType=silent_node)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        say(admin, kube_namespace, scheduled(observer)[0], "Running", ready=True, state=RUNNING)
        await observer.ready(key)

        lost = await observer.because(key, reasons.NODE_LOST, f"its node {silent_node} is not ready", within=180)
        await settled(world.access, operator.controller)

    assert lost.status.phase == "Failed"
    assert await world.writes_of_a_second_pass() == []


async def test_what_the_last_template_left_behind_is_not_held_against_this_one(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key = create_unit(admin, kube_namespace, "demo", gpu=1, gpuType=silent_node, image="nowhere/x:1")
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        (pod,) = scheduled(observer)
        say(admin, kube_namespace, pod, "Pending", ready=False, state={"waiting": {"reason": "ErrImagePull"}})
        await observer.because(key, reasons.IMAGE_PULL_FAILED)

        admin.merge(f"{UNITS.format(kube_namespace)}/demo", {"spec": {"image": "somewhere/x:2"}})
        waiting = await observer.because(key, reasons.UNIT_PROGRESSING, f"Waiting for pod {pod} to end.")
        await settled(world.access, operator.controller)

    assert (waiting.status.phase, waiting.status.stages) == ("Progressing", None)
    assert await world.writes_of_a_second_pass() == []


def play(admin: AdminClient, node: str, player: str | None) -> None:
    """Let kwok simulate the kubelet of a node, or no longer."""
    admin.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"kwok.x-k8s.io/node": player}}})


def say_of_node(admin: AdminClient, node: str, ready: str, reason: str) -> None:
    """Write the status of a node as a kubelet does, or the node lifecycle controller."""
    path = f"/api/v1/nodes/{node}"
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": f"said by a test: {reason}"}
    others = [known for known in admin.get(path)["status"]["conditions"] if known["type"] != "Ready"]
    admin.merge(f"{path}/status", {"status": {"conditions": [*others, condition]}})


def events_of(admin: AdminClient, key: ObjectKey) -> list[tuple[str, str, str]]:
    items = admin.get(f"/apis/events.k8s.io/v1/namespaces/{key.namespace}/events")["items"]
    return [
        (item["type"], item["reason"], item["note"]) for item in items if item["regarding"].get("kind") == "GPUUnit"
    ]
