"""How long the pod of a claimed unit waits for the room of its stock, and on which node."""

from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.desired.provenance import Provenance
from gpuruntime.desired.rendering import Rendering
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta import ObjectKey, ObjectMeta, format_seconds
from gpuruntime.reconcilers.gpuunit.handoff import HANDOFF_SECONDS, ROOM_SECONDS, Handoff, TakenStock
from gpuruntime.reconcilers.gpuunit.renderings import UnitRenderings
from gpuruntime.reconcilers.pod_summary import PodSummary

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = Provenance(ObjectKey("runtime-stock", "stock-1"), "u1")
STOCK_POD = PodSummary("unit-stock-1-x", node="gpu-1")
THERE = TakenStock(SOURCE, is_there=True, pods=(STOCK_POD,))
ENDING = TakenStock(SOURCE, pods=(evolve(STOCK_POD, is_ending=True),))
GONE = TakenStock(SOURCE)
WAITING = PodSummary("unit-demo-x", unscheduled="0/1 nodes are available")
CLAIMED, ACTIVE = Rendering().claimed_priority_class, Rendering().active_priority_class


def deployment(age: float, priority_class: str = CLAIMED) -> Deployment:
    unit = GPUUnit(ObjectMeta(name="demo", namespace="apps", uid="a1", generation=1), GPUUnitSpec("g1.1"))
    made = UnitRenderings(Rendering()).of(unit).deployment(None, priority_class=priority_class)
    created = format_seconds(NOW - timedelta(seconds=age))
    return evolve(made, metadata=evolve(made.metadata, creation_timestamp=created))


def test_a_unit_that_took_over_no_stock_is_in_no_hand_off() -> None:
    handoff = Handoff.of(None, None, [WAITING], NOW)

    assert (handoff.is_under_way, handoff.node) == (False, "")


@pytest.mark.parametrize(
    ("taken", "age", "left"),
    [
        pytest.param(THERE, None, HANDOFF_SECONDS, id="before the Deployment"),
        pytest.param(GONE, None, ROOM_SECONDS, id="before the Deployment, without stock"),
        pytest.param(THERE, 5, HANDOFF_SECONDS - 5, id="the stock unit is there"),
        pytest.param(ENDING, 5, HANDOFF_SECONDS - 5, id="the stock pod ends"),
        pytest.param(GONE, 4, ROOM_SECONDS - 4, id="the stock is gone"),
        pytest.param(GONE, ROOM_SECONDS, 0, id="the stock is gone for a while"),
        pytest.param(ENDING, HANDOFF_SECONDS, 0, id="the stock pod does not end"),
        pytest.param(THERE, 10**6, 0, id="the stock unit is never deleted"),
    ],
)
def test_a_hand_off_is_over_when_its_time_is(taken: TakenStock, age: float | None, left: float) -> None:
    handoff = Handoff.of(taken, None if age is None else deployment(age), [], NOW)

    assert (handoff.seconds_left, handoff.is_under_way) == (left, left > 0)


@pytest.mark.parametrize(
    ("taken", "pod", "node"),
    [
        pytest.param(THERE, WAITING, "gpu-1", id="no node takes the pod"),
        pytest.param(ENDING, WAITING, "gpu-1", id="the stock pod ends"),
        pytest.param(GONE, WAITING, "", id="the stock pod is gone"),
        pytest.param(TakenStock(SOURCE, is_there=True), WAITING, "", id="the stock has no pod"),
        pytest.param(THERE, evolve(WAITING, nominated="gpu-2"), "", id="the pod has a node to wait for"),
        pytest.param(THERE, evolve(WAITING, unscheduled=""), "", id="the scheduler has not tried yet"),
        pytest.param(THERE, evolve(WAITING, node="gpu-2", unscheduled=""), "", id="the pod has a node"),
        pytest.param(THERE, evolve(WAITING, is_ending=True), "", id="the pod ends"),
    ],
)
def test_a_pod_that_no_node_takes_gets_the_node_of_the_stock_pod(taken: TakenStock, pod: PodSummary, node: str) -> None:
    assert Handoff.of(taken, deployment(1), [pod], NOW).node == node


@pytest.mark.parametrize(
    ("taken", "age", "pods", "priority_class", "is_stranded"),
    [
        pytest.param(GONE, ROOM_SECONDS, [WAITING], CLAIMED, True, id="no node takes the pod"),
        pytest.param(None, 1, [WAITING], CLAIMED, True, id="the provenance is gone"),
        pytest.param(GONE, 1, [WAITING], CLAIMED, False, id="the hand-off is under way"),
        pytest.param(GONE, ROOM_SECONDS, [WAITING], ACTIVE, False, id="the pod may preempt already"),
        pytest.param(GONE, 10**6, [evolve(WAITING, node="n", unscheduled="")], CLAIMED, False, id="the pod has a node"),
        pytest.param(GONE, 10**6, [], CLAIMED, False, id="there is no pod"),
    ],
)
def test_a_deployment_is_rendered_anew_only_if_no_node_takes_its_pod_after_the_hand_off(
    taken: TakenStock | None, age: float, pods: list[PodSummary], priority_class: str, *, is_stranded: bool
) -> None:
    own = deployment(age, priority_class)

    assert Handoff.of(taken, own, pods, NOW).is_stranded(own, CLAIMED) is is_stranded
