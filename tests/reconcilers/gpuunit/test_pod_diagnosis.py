"""What is said about a pod that is not ready: one row a state that a kubelet, a scheduler or a node leaves behind."""

from datetime import UTC, datetime

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api import reasons
from gpuruntime.reconcilers.gpuunit.pod_diagnosis import Failure, PodDiagnosis, diagnose_pod, node_failure
from gpuruntime.reconcilers.pod_summary import ContainerSummary, Ending, PodSummary
from gpuruntime.service.reads.informers import NodeSummary

NOW = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
STARTED = "2026-01-01T00:00:00Z"
LONG_AGO = "2025-12-31T00:00:00Z"
ERROR = Ending(1, reason="Error", seconds=1.0)
OOM = Ending(137, reason="OOMKilled", seconds=1.0)
PULL = 'failed to pull image "nowhere/x:1": not found'
NO_COMMAND = 'failed to create containerd task: exec: "nosuch": executable file not found in $PATH'
NOT_STARTED = Ending(128, reason="StartError", message=NO_COMMAND)


def container(**fields: object) -> ContainerSummary:
    return ContainerSummary("runtime-worker", **fields)  # type: ignore[arg-type]  # the rows below are readable this way


def pod(*containers: ContainerSummary, **fields: object) -> PodSummary:
    return PodSummary("unit-a-1", containers=containers, **fields)  # type: ignore[arg-type]  # as above


def diagnosis(of: PodSummary, answer: str = "") -> PodDiagnosis:
    return diagnose_pod(of, min_ready_seconds=3.0, probe_answer=answer, now=NOW)


@pytest.mark.parametrize(
    "healthy",
    [
        pod(phase="Pending"),
        pod(container(waiting_reason="ContainerCreating"), phase="Pending"),
        pod(container(waiting_reason="PodInitializing"), phase="Pending"),
        pod(container(started_at=STARTED), phase="Running"),
        pod(container(is_ready=True, started_at=LONG_AGO, restarts=7, ended_before=ERROR), phase="Running"),
        # It restarted long ago; that it is not ready has another cause.
        pod(container(started_at=LONG_AGO, restarts=7, ended_before=ERROR), phase="Running"),
        pod(ContainerSummary("fetch", is_init=True, is_ready=True, ended=Ending(0)), phase="Running"),
        pod(ContainerSummary("fetch", is_init=True, ended=Ending(0)), phase="Running"),
        pod(phase="Failed"),
    ],
    ids=lambda pod: f"{pod.phase} {[item.waiting_reason for item in pod.containers]}",
)
def test_a_pod_on_its_way_is_neither_failed_nor_down(healthy: PodSummary) -> None:
    found = diagnosis(healthy)

    assert (found.failure, found.is_down, found.recheck_seconds) == (None, False, None)
    assert found.progress


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        (container(waiting_reason="ErrImagePull", waiting_message=PULL), reasons.IMAGE_PULL_FAILED, PULL),
        (
            container(
                waiting_reason="ImagePullBackOff",
                waiting_message=f'Back-off pulling image "nowhere/x:1": ErrImagePull: {PULL}',
            ),
            reasons.IMAGE_PULL_FAILED,
            PULL,
        ),
        (container(waiting_reason="InvalidImageName"), reasons.IMAGE_PULL_FAILED, "InvalidImageName"),
        (
            container(waiting_reason="CreateContainerConfigError", waiting_message='secret "s" not found'),
            reasons.POD_STARTUP_FAILED,
            'secret "s" not found',
        ),
        # After a crash its Secret is gone: that is the trouble now.
        (
            container(
                waiting_reason="CreateContainerConfigError",
                waiting_message='secret "s" not found',
                restarts=3,
                ended_before=ERROR,
            ),
            reasons.POD_STARTUP_FAILED,
            'secret "s" not found',
        ),
        (container(waiting_reason="RunContainerError"), reasons.POD_STARTUP_FAILED, "RunContainerError"),
        (container(ended=NOT_STARTED), reasons.POD_STARTUP_FAILED, NO_COMMAND),
        (
            container(waiting_reason="CrashLoopBackOff", waiting_message="back-off 5m0s restarting failed container"),
            reasons.CRASH_LOOPING,
            "back-off 5m0s restarting failed container",
        ),
        (
            container(
                waiting_reason="CrashLoopBackOff",
                waiting_message="back-off 40s",
                restarts=3,
                ended_before=Ending(1, reason="Error", message="starting\ncannot bind port 80\n"),
            ),
            reasons.CRASH_LOOPING,
            "exit code 1: starting cannot bind port 80 (ended 4 times; ready when it has run for 60 s)",
        ),
        (
            container(waiting_reason="CrashLoopBackOff", restarts=1, ended_before=Ending(0, reason="Completed")),
            reasons.CRASH_LOOPING,
            "(ended 2 times; ready when it has run for 20 s)",
        ),
        (container(ended=ERROR, restarts=1), reasons.CRASH_LOOPING, "20 s)"),
        (container(started_at=STARTED, is_ready=True, restarts=2, ended_before=ERROR), reasons.CRASH_LOOPING, "20 s)"),
        (container(ended=OOM), reasons.OUT_OF_MEMORY, "(ended once; ready when it has run for 10 s)"),
        (
            container(waiting_reason="CrashLoopBackOff", restarts=4, ended_before=OOM),
            reasons.OUT_OF_MEMORY,
            "(ended 5 times; ready when it has run for 60 s)",
        ),
    ],
    ids=lambda value: (
        str(value.waiting_reason or value.ended or "running") if isinstance(value, ContainerSummary) else ""
    ),
)
def test_a_container_in_trouble_is_named_with_its_words(state: ContainerSummary, reason: str, text: str) -> None:
    failure = diagnosis(pod(state)).failure

    assert failure is not None
    assert failure.reason == reason
    assert failure.message.startswith("Pod unit-a-1 container runtime-worker: ")
    assert failure.message.endswith(text)


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (ERROR, "exit code 1 (ended once"),
        (Ending(2, message="no such model\n"), "exit code 2: no such model (ended once"),
        (Ending(0, signal=9), "terminated by signal 9 (ended once"),
        (Ending(0, reason="Completed"), "(exit code 0), but has to go on running (ended once"),
    ],
)
def test_a_first_end_may_be_an_accident_and_is_reported_without_being_a_failure(ending: Ending, text: str) -> None:
    moments = [
        container(ended=ending),
        container(restarts=1, ended_before=ending),
        container(restarts=1, started_at=STARTED, is_ready=True, ended_before=ending),
    ]

    found = [diagnosis(pod(moment)) for moment in moments]

    assert {(one.failure, one.is_down) for one in found} == {(None, True)}
    assert len({one.progress for one in found}) == 1
    assert text in found[0].progress


@pytest.mark.parametrize("ending", [ERROR, OOM, NOT_STARTED, Ending(0)])
@pytest.mark.parametrize("restarts", [1, 2, 30])
def test_a_crash_reads_the_same_from_one_end_to_the_next(ending: Ending, restarts: int) -> None:
    moments = [
        container(restarts=restarts, ended=ending),
        container(restarts=restarts, waiting_reason="CrashLoopBackOff", waiting_message="1", ended_before=ending),
        container(restarts=restarts, waiting_reason="RunContainerError", waiting_message="2", ended_before=ending),
        container(restarts=restarts + 1, ended_before=ending),
        container(restarts=restarts + 1, started_at=STARTED, ended_before=ending),
        container(restarts=restarts + 1, started_at=STARTED, is_ready=True, ended_before=ending),
    ]

    found = [diagnosis(pod(moment)) for moment in moments]

    assert len({(one.failure, one.is_down) for one in found}) == 1
    assert found[0].failure is not None


def test_a_command_that_is_not_in_the_image_reads_the_same_at_every_try() -> None:
    tries = [container(restarts=number, ended=NOT_STARTED) for number in range(9)]

    assert {diagnosis(pod(one)).failure for one in tries} == {
        Failure(reasons.POD_STARTUP_FAILED, f"Pod unit-a-1 container runtime-worker: {NO_COMMAND}")
    }


def test_a_restarted_container_is_looked_at_again_when_it_may_be_up() -> None:
    restarted = container(started_at=STARTED, is_ready=True, restarts=1, ended_before=ERROR)

    early = diagnosis(pod(restarted))
    in_time = diagnosis(pod(evolve(restarted, started_at="2025-12-31T23:59:55Z")))

    assert early.recheck_seconds == 5.0
    assert (in_time.is_down, in_time.recheck_seconds) == (False, None)


def test_init_containers_come_first_and_are_called_so() -> None:
    first = ContainerSummary("fetch", is_init=True, ended=ERROR, restarts=1)

    failure = diagnosis(pod(first, container(waiting_reason="ErrImagePull"))).failure

    assert failure is not None
    assert failure.reason == reasons.CRASH_LOOPING
    assert failure.message.startswith("Pod unit-a-1 init container fetch: exit code 1 ")


def test_a_pod_that_no_node_takes_has_the_scheduler_s_words() -> None:
    words = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."

    failure = diagnosis(pod(phase="Pending", unscheduled=words)).failure

    assert failure == Failure(reasons.UNSCHEDULABLE, f"Pod unit-a-1 is not scheduled: {words}")


def test_a_pod_that_is_nominated_for_a_node_is_on_its_way() -> None:
    waiting = pod(phase="Pending", unscheduled="0/4 nodes are available", nominated="gpu-1")

    found = diagnosis(waiting)

    assert found.failure is None
    assert "gpu-1" in found.progress


def test_a_pod_that_failed_as_a_whole_says_why_before_its_containers_do() -> None:
    evicted = pod(container(ended=Ending(137)), phase="Failed", reason="Evicted", message="low on memory")

    failure = diagnosis(evicted).failure

    assert failure == Failure(reasons.POD_STARTUP_FAILED, "Pod unit-a-1: Evicted: low on memory")


@pytest.mark.parametrize(
    ("state", "node", "text"),
    [
        (pod(phase="Pending"), None, None),
        (pod(phase="Pending", node="gpu-1"), None, None),
        (pod(phase="Running", node="gpu-1"), NodeSummary(is_ready=True), None),
        (pod(phase="Running", node="gpu-1"), None, "its node gpu-1 is gone from the cluster"),
        (
            pod(phase="Running", node="gpu-1"),
            NodeSummary(is_ready=False, reason="NodeStatusUnknown", message="Kubelet stopped posting node status."),
            "its node gpu-1 is not ready: NodeStatusUnknown: Kubelet stopped posting node status.",
        ),
        (
            pod(phase="Pending", node="gpu-1"),
            NodeSummary(is_ready=False),
            "its node gpu-1 is not ready: it was never heard of",
        ),
    ],
)
def test_a_lost_node_is_named(state: PodSummary, node: NodeSummary | None, text: str | None) -> None:
    failure = node_failure(state, node)

    assert failure == (None if text is None else Failure(reasons.NODE_LOST, f"Pod unit-a-1: {text}"))


@pytest.mark.parametrize(
    ("state", "answer", "text"),
    [
        (pod(), "", "Waiting for pod unit-a-1 to be scheduled."),
        (pod(container(), node="gpu-1"), "", "Pod unit-a-1 is on node gpu-1; waiting for its containers to start."),
        (
            pod(container(started_at=STARTED), node="gpu-1"),
            "",
            "Pod unit-a-1 runs on node gpu-1; waiting for it to be ready.",
        ),
        (
            pod(container(started_at=STARTED), node="gpu-1"),
            "HTTP probe failed with statuscode: 404",
            "Pod unit-a-1 runs on node gpu-1; its readiness probe fails: HTTP probe failed with statuscode: 404",
        ),
        (
            pod(container(started_at=STARTED, is_ready=True), node="gpu-1", is_ready=True, ready_at=STARTED),
            "HTTP probe failed with statuscode: 404",
            "Pod unit-a-1 runs on node gpu-1; waiting until it has been ready for 3 s.",
        ),
    ],
)
def test_progress_says_how_far_a_pod_is(state: PodSummary, answer: str, text: str) -> None:
    assert diagnosis(state, answer).progress == text


@given(st.text(max_size=5000), st.integers(-1, 200), st.integers(0, 9), st.floats(0, 1e6))
def test_whatever_a_container_says_the_message_stays_short(
    message: str, code: int, restarts: int, seconds: float
) -> None:
    state = container(ended=Ending(code, message=message, seconds=seconds), restarts=restarts)

    found = diagnosis(pod(state), message)

    assert len(found.progress if found.failure is None else found.failure.message) < 1100
