"""What is said about a pod that is not ready: one row a state that a kubelet, a scheduler or a node leaves behind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api import reasons
from gpuruntime.reconcilers.gpuunit.pod_diagnosis import Failure, node_failure, pod_failure, pod_progress
from gpuruntime.reconcilers.gpuunit.pod_summary import ContainerSummary, Ending, PodSummary
from gpuruntime.service.reads.informers import NodeSummary

ERROR = Ending(1, reason="Error")
OOM = Ending(137, reason="OOMKilled")
PULL = 'failed to pull image "nowhere/x:1": not found'


def container(**fields: object) -> ContainerSummary:
    return ContainerSummary("runtime-worker", **fields)  # type: ignore[arg-type]  # the rows below are readable this way


def pod(*containers: ContainerSummary, **fields: object) -> PodSummary:
    return PodSummary("unit-a-1", containers=containers, **fields)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    "healthy",
    [
        pod(phase="Pending"),
        pod(container(waiting_reason="ContainerCreating"), phase="Pending"),
        pod(container(waiting_reason="PodInitializing"), phase="Pending"),
        pod(container(started_at="2026-01-01T00:00:00Z"), phase="Running"),
        pod(container(is_ready=True, restarts=7, ended_before=ERROR), phase="Running"),
        pod(container(started_at="2026-01-01T00:00:00Z", restarts=1, ended_before=ERROR), phase="Running"),
        pod(container(ended=Ending(0, reason="Completed")), phase="Running"),
        pod(phase="Failed"),
    ],
    ids=lambda pod: f"{pod.phase} {[item.waiting_reason for item in pod.containers]}",
)
def test_a_pod_on_its_way_has_no_failure(healthy: PodSummary) -> None:
    assert pod_failure(healthy) is None


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
        (container(waiting_reason="RunContainerError"), reasons.POD_STARTUP_FAILED, "RunContainerError"),
        (container(ended=ERROR), reasons.POD_STARTUP_FAILED, "Error (exit code 1)"),
        (container(ended=Ending(2)), reasons.POD_STARTUP_FAILED, "code 2"),
        (container(ended=Ending(0, signal=9)), reasons.POD_STARTUP_FAILED, "signal 9"),
        (
            container(ended=Ending(3, reason="Error", message="no such model\n")),
            reasons.POD_STARTUP_FAILED,
            "no such model",
        ),
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
                ended_before=Ending(1, reason="Error", message="cannot bind port 80"),
            ),
            reasons.CRASH_LOOPING,
            "cannot bind port 80 (restarted 3 times)",
        ),
        (
            container(waiting_reason="CrashLoopBackOff", restarts=1, ended_before=Ending(0, reason="Completed")),
            reasons.CRASH_LOOPING,
            "(restarted 1 time)",
        ),
        (container(ended=ERROR, restarts=1), reasons.CRASH_LOOPING, "Error (exit code 1) (restarted 1 time)"),
        (
            container(started_at="2026-01-01T00:00:00Z", restarts=2, ended_before=ERROR),
            reasons.CRASH_LOOPING,
            "Error (exit code 1) (restarted 2 times)",
        ),
        (container(ended=OOM), reasons.OUT_OF_MEMORY, ""),
        (
            container(waiting_reason="CrashLoopBackOff", restarts=4, ended_before=OOM),
            reasons.OUT_OF_MEMORY,
            "(restarted 4 times)",
        ),
    ],
    ids=lambda value: (
        str(value.waiting_reason or value.ended or "running") if isinstance(value, ContainerSummary) else ""
    ),
)
def test_a_container_in_trouble_is_named_with_its_words(state: ContainerSummary, reason: str, text: str) -> None:
    failure = pod_failure(pod(state))

    assert failure is not None
    assert failure.reason == reason
    assert failure.message.startswith("Pod unit-a-1 container runtime-worker: ")
    assert failure.message.endswith(text)


def test_a_crash_reads_the_same_whether_the_container_waits_or_runs_for_a_moment() -> None:
    moments = [
        container(restarts=3, ended=ERROR),
        container(restarts=3, waiting_reason="CrashLoopBackOff", ended_before=ERROR),
        container(restarts=3, started_at="2026-01-01T00:00:00Z", ended_before=ERROR),
    ]

    reported = {pod_failure(pod(moment)) for moment in moments}

    assert len(reported) == 1


def test_init_containers_come_first_and_are_called_so() -> None:
    first = ContainerSummary("fetch", is_init=True, ended=ERROR)

    failure = pod_failure(pod(first, container(waiting_reason="ErrImagePull")))

    assert failure == Failure(reasons.POD_STARTUP_FAILED, "Pod unit-a-1 init container fetch: Error (exit code 1)")


def test_a_pod_that_no_node_takes_has_the_scheduler_s_words() -> None:
    words = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."

    failure = pod_failure(pod(phase="Pending", unscheduled=words))

    assert failure == Failure(reasons.UNSCHEDULABLE, f"Pod unit-a-1 is not scheduled: {words}")


def test_a_pod_that_failed_as_a_whole_says_why_before_its_containers_do() -> None:
    evicted = pod(container(ended=Ending(137)), phase="Failed", reason="Evicted", message="low on memory")

    failure = pod_failure(evicted)

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
    ("state", "text"),
    [
        (pod(is_ending=True, node="gpu-1"), "Waiting for pod unit-a-1 to end."),
        (pod(), "Waiting for pod unit-a-1 to be scheduled."),
        (pod(container(), node="gpu-1"), "Pod unit-a-1 is on node gpu-1; waiting for its containers to start."),
        (
            pod(container(started_at="2026-01-01T00:00:00Z"), node="gpu-1"),
            "Pod unit-a-1 runs on node gpu-1; waiting for it to be ready.",
        ),
    ],
)
def test_progress_says_how_far_a_pod_is(state: PodSummary, text: str) -> None:
    assert pod_progress(state) == text


@given(st.text(max_size=5000), st.integers(-1, 200), st.integers(0, 9))
def test_whatever_a_container_says_the_message_stays_short(message: str, code: int, restarts: int) -> None:
    state = container(ended=Ending(code, message=message), restarts=restarts)

    failure = pod_failure(pod(state))

    assert failure is None or len(failure.message) < 1000
