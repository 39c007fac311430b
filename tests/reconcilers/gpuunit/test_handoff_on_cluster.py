"""The pod of a claimed unit on a full node: it waits for the room of its stock, and stock is not preempted."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from gpuruntime.api import reasons
from gpuruntime.control import Store
from gpuruntime.desired.provenance import Claim, Provenance
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import AdminClient, ClusterAccess, NodeShape
from tests.product_scenes import UNITS, Observer, create_unit
from tests.reconcilers.pod_scenes import RUNNING, end, say
from tests.reconcilers.unit_scenes import UnitWorld, deployment_of, play_node


@pytest.fixture
def one_gpu(product: ClusterAccess, kube_namespace: str) -> Iterator[str]:
    """The GPU product of a node with one GPU and no simulated kubelet; the node has the same name."""
    name = f"one-{kube_namespace}"
    with play_node(product, NodeShape(name, product=name, gpus=1)):
        yield name


def take_over(admin: AdminClient, stock: Provenance, unit: ObjectKey, gpu_type: str) -> None:
    """Create the active unit of a hand-off."""
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": unit.name, "annotations": stock.annotations()},
        "spec": {"specName": "g1.1", "cpu": "1", "memory": "1Gi", "gpu": 1, "gpuType": gpu_type},
    }
    admin.create(UNITS.format(unit.namespace), body)


def claim_for(unit: ObjectKey) -> dict[str, str]:
    """The annotations of a claim on stock by a request that creates this unit."""
    return Claim("o1", "operation-1", unit).annotations(datetime.now(UTC))


def pod_of(store: Store[Pod], unit: ObjectKey) -> Pod | None:
    """The pod of a unit that is to stay."""
    pods = [pod for pod in store.list(unit.namespace).items if pod.metadata.name.startswith(f"unit-{unit.name}-")]
    return next((pod for pod in pods if pod.metadata.deletion_timestamp is None), None)


def node_of(store: Store[Pod], unit: ObjectKey) -> str:
    pod = pod_of(store, unit)
    return "" if pod is None else pod.spec.node_name or ""


async def test_the_room_of_the_stock_pod_is_kept_for_the_claimed_unit_and_not_for_pending_stock(
    world: UnitWorld, observer: Observer, kube_namespace: str, stock_namespace: str, one_gpu: str
) -> None:
    admin, active = world.access.admin(), ObjectKey(kube_namespace, "demo")
    async with world.operator():
        stock = create_unit(admin, stock_namespace, "stock", gpu=1, gpuType=one_gpu)
        await observer.pods.until(lambda store: node_of(store, stock) == one_gpu)
        pod = pod_of(observer.pods.store, stock)
        assert pod is not None
        say(admin, stock_namespace, pod.metadata.name, "Running", ready=True, state=RUNNING)
        claimed = await observer.ready(stock)
        refill = create_unit(admin, stock_namespace, "refill", gpu=1, gpuType=one_gpu)
        await observer.because(refill, reasons.UNSCHEDULABLE)

        admin.merge(f"{UNITS.format(stock_namespace)}/stock", {"metadata": {"annotations": claim_for(active)}})
        take_over(admin, Provenance(stock, claimed.metadata.uid), active, one_gpu)
        waiting = await observer.because(active, reasons.UNIT_PROGRESSING, f"on node {one_gpu}")
        await observer.units.until(lambda store: stock not in store)
        # The garbage collector may take 30 s to find the children of a kind that was just defined.
        admin.delete(f"/apis/apps/v1/namespaces/{stock_namespace}/deployments/unit-stock")
        await observer.pods.until(lambda store: pod_of(store, stock) is None)
        end(admin, stock_namespace, pod.metadata.name)
        await observer.pods.until(lambda store: node_of(store, active) == one_gpu)

    placed = pod_of(observer.pods.store, active)
    assert placed is not None
    spec = admin.get(f"/api/v1/namespaces/{kube_namespace}/pods/{placed.metadata.name}")["spec"]
    assert (spec["priorityClassName"], spec["preemptionPolicy"]) == ("gpuruntime-claimed", "Never")
    assert waiting.status.phase == "Progressing"
    assert node_of(observer.pods.store, refill) == ""


async def test_a_unit_that_names_stock_that_never_existed_may_preempt_idle_stock_after_a_while(
    world: UnitWorld, observer: Observer, kube_namespace: str, stock_namespace: str, one_gpu: str
) -> None:
    admin, active = world.access.admin(), ObjectKey(kube_namespace, "demo")
    async with world.operator():
        idle = create_unit(admin, stock_namespace, "idle", gpu=1, gpuType=one_gpu)
        await observer.pods.until(lambda store: node_of(store, idle) == one_gpu)
        first = pod_of(observer.pods.store, idle)
        assert first is not None

        take_over(admin, Provenance(ObjectKey(stock_namespace, "never"), "u1"), active, one_gpu)
        await observer.because(active, reasons.UNSCHEDULABLE)
        before = deployment_of(observer, active).spec.template.spec.priority_class_name
        await observer.pods.until(lambda store: (pod_of(store, idle) or first).key != first.key)
        end(admin, stock_namespace, first.metadata.name)
        await observer.pods.until(lambda store: node_of(store, active) == one_gpu)

    after = deployment_of(observer, active).spec.template.spec.priority_class_name
    assert (before, after) == ("gpuruntime-claimed", "gpuruntime-active")
