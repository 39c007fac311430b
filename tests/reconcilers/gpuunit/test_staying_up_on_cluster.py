"""A unit is Ready when it stays up, on a real control plane; what a kubelet would say is written into pods here."""

from datetime import UTC, datetime, timedelta
from typing import Any

from gpuruntime.api import reasons
from gpuruntime.control import Store
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta import ObjectKey, find_condition, format_seconds
from gpuruntime.testing import AdminClient
from tests.product_scenes import UNITS, Observer, create_unit, ready_reason, settled
from tests.reconcilers.pod_scenes import RUNNING, say, scheduled, silent_node
from tests.reconcilers.unit_scenes import Operator, UnitWorld, child_of

__all__ = ["silent_node"]

PROBE = {"httpGet": {"port": 8080, "path": "/health"}}
REFUSED = "Readiness probe failed: dial tcp 198.18.0.2:8080: connect: connection refused"


def times(started: int, finished: int = 0) -> dict[str, str]:
    """When a container started and ended, in seconds from now."""
    now = datetime.now(UTC)
    at = {"startedAt": started, "finishedAt": finished}
    return {name: format_seconds(now + timedelta(seconds=seconds)) for name, seconds in at.items()}


async def running_pod(
    world: UnitWorld, observer: Observer, namespace: str, product: str, **spec: Any
) -> tuple[ObjectKey, str]:
    """A unit and its pod, which has a node and waits for its kubelet."""
    key = create_unit(world.access.admin(), namespace, "demo", gpu=1, gpuType=product, **spec)
    await observer.pods.until(lambda _: bool(scheduled(observer)))
    (pod,) = scheduled(observer)
    return key, pod


async def observed(world: UnitWorld, observer: Observer, operator: Operator, unit: ObjectKey, ready: int) -> None:
    """Returns when Deployment controller and operator have seen that this number of pods is ready."""

    def is_seen(store: Store[Deployment]) -> bool:
        found = store.get(child_of(unit))
        return found is not None and found.status.ready_replicas == ready

    await observer.deployments.until(is_seen)
    await settled(world.access, operator.controller)


async def test_a_pod_that_has_not_been_ready_for_long_enough_makes_no_unit_ready(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    admin = world.access.admin()
    async with world.operator() as operator:
        key, pod = await running_pod(world, observer, kube_namespace, silent_node, minReadySeconds=3600)
        now = {"state": {"running": {"startedAt": times(0)["startedAt"]}}}
        say(admin, kube_namespace, pod, "Running", ready=True, **now, since=times(0)["startedAt"])
        waiting = await observer.because(key, reasons.UNIT_PROGRESSING, "3600 s")
        await settled(world.access, operator.controller)

        admin.merge(f"{UNITS.format(kube_namespace)}/demo", {"spec": {"minReadySeconds": 0}})
        await observer.ready(key, generation=2)
        await settled(world.access, operator.controller)

    assert waiting.status.phase == "Progressing"
    assert scheduled(observer) == [pod]
    assert await world.writes_of_a_second_pass() == []


async def test_a_crash_loop_is_never_ready_and_each_end_costs_at_most_one_write(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    admin, rounds, seen = world.access.admin(), 4, []
    async with world.operator() as operator:
        key, pod = await running_pod(world, observer, kube_namespace, silent_node)
        say(admin, kube_namespace, pod, "Running", ready=True, state=RUNNING)
        await observer.ready(key)
        await settled(world.access, operator.controller)

        with world.audit.recording() as recording:
            for number in range(rounds):
                ended = {"terminated": {"exitCode": 7, "reason": "Error", "message": "no model", **times(-4)}}
                waits = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {number}0s"}}
                runs = {"running": {"startedAt": times(0)["startedAt"]}}
                for ready, count, state, last in (
                    (False, number, ended, {}),
                    (False, number, waits, ended),
                    (True, number + 1, runs, ended),
                ):
                    say(
                        admin,
                        kube_namespace,
                        pod,
                        "Running",
                        ready=ready,
                        state=state,
                        lastState=last,
                        restartCount=count,
                    )
                    await observed(world, observer, operator, key, int(ready))
                    unit = observer.units.store.get(key)
                    assert unit is not None
                    seen.append((ready_reason(unit), unit.status.ready_replicas))

    writes = [write for write in recording.writes(user=world.account.username) if write.resource == "gpuunits"]
    first, others = [(reasons.UNIT_PROGRESSING, 0)] * 3, [(reasons.CRASH_LOOPING, 0)] * (3 * (rounds - 1))
    assert seen == [*first, *others]
    assert len(writes) == rounds
    unit = observer.units.store.get(key)
    assert unit is not None
    condition = find_condition(unit.status.conditions, "Ready")
    assert condition is not None
    assert "exit code 7: no model" in (condition.message or "")


async def test_a_failing_readiness_probe_is_named_with_its_answer(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    admin, template = world.access.admin(), {"readinessProbe": PROBE}
    async with world.operator() as operator:
        key, pod = await running_pod(world, observer, kube_namespace, silent_node, template=template)
        fail_probe(admin, kube_namespace, pod, REFUSED)
        say(admin, kube_namespace, pod, "Running", ready=False, state=RUNNING)
        failing = await observer.because(key, reasons.UNIT_PROGRESSING, "connect: connection refused")
        await settled(world.access, operator.controller)

        say(admin, kube_namespace, pod, "Running", ready=True, state=RUNNING)
        await observer.ready(key)
        await settled(world.access, operator.controller)

    assert failing.status.phase == "Progressing"
    assert await world.writes_of_a_second_pass() == []


def fail_probe(admin: AdminClient, namespace: str, pod: str, message: str) -> None:
    """Report a failed probe as a kubelet does."""
    now = times(0)["startedAt"]
    body = {
        "metadata": {"name": f"{pod}.1", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod},
        "reason": "Unhealthy",
        "message": message,
        "type": "Warning",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": "kubelet"},
    }
    admin.create(f"/api/v1/namespaces/{namespace}/events", body)
