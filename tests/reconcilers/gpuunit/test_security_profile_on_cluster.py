"""Units under Pod Security `restricted`, which the API server itself enforces."""

from typing import Any

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.testing import ClusterAccess
from tests.product_scenes import UNITS, Observer, create_unit, ready_reason
from tests.reconcilers.pod_scenes import say, scheduled, silent_node
from tests.reconcilers.unit_scenes import UnitWorld

__all__ = ["silent_node"]

ENDS = {reasons.UNIT_READY, reasons.STOCK_READY, reasons.ADMISSION_REFUSED, reasons.DEPLOYMENT_SYNC_FAILED}


def restrict(access: ClusterAccess, *namespaces: str) -> None:
    for namespace in namespaces:
        access.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")


async def decided(observer: Observer, key: ObjectKey) -> GPUUnit:
    """The unit, once it is ready or refused."""
    return await observer.until(key, "ready or refused", lambda unit: ready_reason(unit) in ENDS)


async def test_stock_and_units_that_ask_for_it_run_where_pod_security_is_restricted(
    world: UnitWorld, observer: Observer, kube_namespace: str, stock_namespace: str
) -> None:
    admin = world.access.admin()
    restrict(world.access, kube_namespace, stock_namespace)
    payload: dict[str, Any] = {"image": "example/model", "template": {"command": ["serve"]}}
    async with world.operator():
        keys = [
            create_unit(admin, stock_namespace, "plain"),
            create_unit(admin, stock_namespace, "warm", gpu=0, **payload),
            create_unit(admin, kube_namespace, "asks", securityProfile="Restricted", **payload),
            create_unit(admin, kube_namespace, "bare", securityProfile="Restricted"),
        ]

        units = [await decided(observer, key) for key in keys]

    assert [ready_reason(unit) for unit in units] == ["StockReady", "StockReady", "UnitReady", "UnitReady"]


async def test_a_unit_that_pod_security_refuses_says_so_and_what_to_ask_for(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    admin = world.access.admin()
    restrict(world.access, kube_namespace)
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", image="example/model")
        refused = find_condition((await decided(observer, key)).status.conditions, "Ready")

        assert refused is not None
        assert refused.reason == reasons.ADMISSION_REFUSED
        assert 'violates PodSecurity "restricted' in (refused.message or "")
        assert "securityProfile: Restricted" in (refused.message or "")
        admin.merge(f"{UNITS.format(kube_namespace)}/demo", {"spec": {"securityProfile": "Restricted"}})
        mended = await observer.ready(key, generation=2)

    assert ready_reason(mended) == "UnitReady"


async def test_an_image_that_cannot_run_under_the_profile_is_the_reason_of_its_unit(
    world: UnitWorld, observer: Observer, kube_namespace: str, silent_node: str
) -> None:
    said = "container has runAsNonRoot and image will run as root (pod: unit-demo, container: runtime-worker)"
    waiting: dict[str, Any] = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": said}}}
    admin, profile = world.access.admin(), {"image": "nginx", "securityProfile": "Restricted"}
    async with world.operator():
        key = create_unit(admin, kube_namespace, "demo", gpu=1, gpuType=silent_node, **profile)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        (pod,) = scheduled(observer)
        say(admin, kube_namespace, pod, "Pending", ready=False, **waiting)
        unit = await observer.until(key, "failed", lambda unit: unit.status.phase == "Failed")

    ready = find_condition(unit.status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "SecurityProfileUnmet"
    assert said in (ready.message or "")
    assert "USER" in (ready.message or "")
