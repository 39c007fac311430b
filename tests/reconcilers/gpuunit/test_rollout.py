"""How far a unit's Deployment is: one row a state of the Deployment and its pods."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest
from attrs import evolve

from gpuruntime.api import reasons
from gpuruntime.kube.builtin.apps import Deployment, DeploymentSpec, DeploymentStatus
from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import ObjectMeta
from gpuruntime.reconcilers.gpuunit.rollout import Rollout
from gpuruntime.reconcilers.gpuunit.rollout import rollout_of as rollout_at
from gpuruntime.reconcilers.pod_summary import ContainerSummary, Ending, PodSummary
from gpuruntime.service.reads.informers import NodeSummary

LOST = NodeSummary(is_ready=False, reason="NodeStatusUnknown", message="Kubelet stopped posting node status.")
QUOTA = 'pods "unit-a-1-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1'
STUCK = ContainerSummary("runtime-worker", waiting_reason="ErrImagePull", waiting_message="not found")
NEW = PodSummary("unit-a-2-x", controller="unit-a-2", created_at="2026-01-01T00:01:00Z", node="gpu-1", phase="Pending")
RUNNING = ContainerSummary("runtime-worker", is_ready=True, started_at="2026-01-01T00:01:02Z")
UP = evolve(NEW, phase="Running", is_ready=True, ready_at="2026-01-01T00:01:03Z", containers=(RUNNING,))
OLD = PodSummary("unit-a-1-x", controller="unit-a-1", created_at="2026-01-01T00:00:00Z", node="gpu-2", phase="Running")
READY = DeploymentStatus(observed_generation=3, replicas=1, updated_replicas=1, ready_replicas=1, available_replicas=1)
STARTING = DeploymentStatus(observed_generation=3, replicas=1, updated_replicas=1, unavailable_replicas=1)
WITHOUT_POD = DeploymentStatus(observed_generation=3, unavailable_replicas=1)
REFUSED = Condition("ReplicaFailure", "True", "FailedCreate", QUOTA)
LATE = Condition("Progressing", "False", "ProgressDeadlineExceeded", "has timed out progressing.")


HEALTHY = {"gpu-1": NodeSummary(is_ready=True)}
NOW = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)


def rollout_of(made: Deployment, pods: Sequence[PodSummary], nodes: Mapping[str, NodeSummary]) -> Rollout:
    return rollout_at(made, pods, nodes, {}, NOW)


def deployment(status: DeploymentStatus, *conditions: Condition) -> Deployment:
    spec = DeploymentSpec(LabelSelector(), PodTemplateSpec(), replicas=1, progress_deadline_seconds=600)
    return Deployment(ObjectMeta(name="unit-a", generation=3), spec, evolve(status, conditions=conditions))


def test_a_deployment_is_rolled_out_when_this_generation_is_available_and_nothing_else_is_left() -> None:
    assert rollout_of(deployment(READY), [UP], {}) == Rollout(is_complete=True, pod=UP)


@pytest.mark.parametrize(
    "status",
    [
        evolve(READY, observed_generation=2),
        evolve(READY, updated_replicas=0),
        evolve(READY, replicas=2),
        evolve(READY, available_replicas=0),
        DeploymentStatus(),
    ],
)
def test_anything_less_is_not_rolled_out(status: DeploymentStatus) -> None:
    assert not rollout_of(deployment(status), [UP], {}).is_complete


@pytest.mark.parametrize(
    "pods",
    [
        [],
        [NEW],
        [evolve(UP, is_ending=True)],
        [evolve(UP, is_ready=False, ready_at="")],
        [
            evolve(
                UP, containers=(evolve(RUNNING, restarts=1, ended_before=Ending(1), started_at="2026-01-01T00:04:55Z"),)
            )
        ],
        [evolve(UP, containers=(evolve(RUNNING, started_at="", ended=Ending(1)),))],
    ],
)
def test_a_deployment_that_is_available_by_its_own_word_is_not_rolled_out_before_its_pod_says_so(
    pods: list[PodSummary],
) -> None:
    assert not rollout_of(deployment(READY), pods, {}).is_complete


def test_a_restarted_container_is_looked_at_again_when_it_may_have_stayed_up_for_long_enough() -> None:
    restarted = evolve(RUNNING, restarts=1, ended_before=Ending(1), started_at="2026-01-01T00:04:55Z")

    waiting = rollout_of(deployment(READY), [evolve(UP, containers=(restarted,))], {})
    later = rollout_of(
        deployment(READY), [evolve(UP, containers=(evolve(restarted, started_at="2026-01-01T00:04:50Z"),))], {}
    )

    assert (waiting.is_complete, waiting.is_down, waiting.recheck_seconds) == (False, True, 5.0)
    assert later.is_complete


def test_the_answer_of_a_failing_probe_is_in_the_progress_and_in_the_deadline_that_passed() -> None:
    unready = evolve(UP, is_ready=False, ready_at="", containers=(evolve(RUNNING, is_ready=False),))

    starting = rollout_at(deployment(STARTING), [unready], HEALTHY, {UP.name: "HTTP 404"}, NOW)
    late = rollout_at(deployment(STARTING, LATE), [unready], HEALTHY, {UP.name: "HTTP 404"}, NOW)

    assert starting.failure is None
    assert "HTTP 404" in starting.progress
    assert late.failure is not None
    assert "HTTP 404" in late.failure.message


@pytest.mark.parametrize(
    ("status", "pods", "nodes", "reason"),
    [
        (STARTING, [NEW], {}, None),
        (STARTING, [evolve(NEW, containers=(STUCK,))], {}, reasons.IMAGE_PULL_FAILED),
        (STARTING, [NEW], {"gpu-1": LOST}, reasons.NODE_LOST),
        # What an older template left behind is no news about this one.
        (STARTING, [NEW, evolve(OLD, phase="Failed", reason="Evicted")], {}, None),
        (STARTING, [NEW, evolve(OLD, containers=(STUCK,), is_ending=True)], {"gpu-2": LOST}, None),
        (WITHOUT_POD, [evolve(OLD, containers=(STUCK,))], {}, None),
        (WITHOUT_POD, [evolve(OLD, is_ending=True)], {"gpu-2": NodeSummary(is_ready=True)}, None),
        # A pod on a lost node never ends, and the next one waits for it.
        (WITHOUT_POD, [evolve(OLD, is_ending=True)], {"gpu-2": LOST}, reasons.NODE_LOST),
        # Somebody else's pod with the label of the unit.
        (STARTING, [NEW, evolve(NEW, name="z", controller="", containers=(STUCK,))], {}, None),
        (STARTING, [NEW, evolve(NEW, name="z", controller="else-1", containers=(STUCK,))], {}, None),
        # The Deployment has not looked at this generation: nothing is known.
        (evolve(STARTING, observed_generation=2), [evolve(NEW, containers=(STUCK,))], {}, None),
    ],
)
def test_only_what_concerns_the_newest_template_holds_it_up(
    status: DeploymentStatus, pods: list[PodSummary], nodes: dict[str, NodeSummary], reason: str | None
) -> None:
    rollout = rollout_of(deployment(status), pods, nodes)

    assert (rollout.failure and rollout.failure.reason) == reason
    assert rollout.failure is not None or rollout.progress


def test_a_pod_that_a_quota_refuses_has_the_server_s_words() -> None:
    rollout = rollout_of(deployment(WITHOUT_POD, REFUSED, LATE), [], {})

    assert rollout.failure is not None
    assert rollout.failure.reason == reasons.QUOTA_EXCEEDED
    assert QUOTA in rollout.failure.message


def test_a_pod_that_admission_refuses_is_not_taken_for_a_matter_of_quota() -> None:
    words = 'admission webhook "policy.example.org" denied the request: no latest tags'

    rollout = rollout_of(deployment(WITHOUT_POD, evolve(REFUSED, message=words)), [], {})

    assert rollout.failure is not None
    assert rollout.failure.reason == reasons.ADMISSION_REFUSED
    assert words in rollout.failure.message


def test_a_deadline_that_passed_says_what_the_pod_waits_for() -> None:
    rollout = rollout_of(deployment(STARTING, LATE), [NEW], {})

    assert rollout.failure is not None
    assert rollout.failure.reason == reasons.PROGRESS_DEADLINE_EXCEEDED
    assert all(named in rollout.failure.message for named in ("600 s", "unit-a-2-x", "gpu-1"))


def test_what_the_pod_says_comes_before_the_deadline() -> None:
    rollout = rollout_of(deployment(STARTING, LATE), [evolve(NEW, containers=(STUCK,))], {})

    assert rollout.failure is not None
    assert rollout.failure.reason == reasons.IMAGE_PULL_FAILED


@pytest.mark.parametrize(
    ("status", "pods", "progress"),
    [
        (evolve(STARTING, observed_generation=2), [NEW], "Waiting for the Deployment to be rolled out."),
        (WITHOUT_POD, [], "Waiting for the pod to be made."),
        (WITHOUT_POD, [evolve(OLD, is_ending=True)], "Waiting for pod unit-a-1-x to end."),
        (STARTING, [NEW], "Pod unit-a-2-x is on node gpu-1; waiting for its containers to start."),
    ],
)
def test_progress_says_what_is_waited_for(status: DeploymentStatus, pods: list[PodSummary], progress: str) -> None:
    assert rollout_of(deployment(status), pods, {}).progress == progress
