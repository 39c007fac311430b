"""The status of a pod with a local worker: what a kubelet would write, and nothing new while nothing changes."""

from datetime import UTC, datetime, timedelta

from attrs import evolve

from gpuruntime.kube.builtin.containers import ContainerState, ContainerStateRunning, ContainerStateTerminated
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import Condition, find_condition
from gpuruntime.testing.local_workers.kept_process import Observed
from gpuruntime.testing.local_workers.pod_status import WorkerView, refused_status, running_status, starts_before
from tests.testing.local_workers.worker_pods import worker_pod

NOW = datetime(2026, 11, 18, 10, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
RUNNING = Observed(ContainerState(running=ContainerStateRunning("2026-11-18T10:00:00Z")))
READY = WorkerView(RUNNING, RUNNING, is_serving=True, has_started=True, is_ready=True)


def scheduled() -> Pod:
    pod = worker_pod("red")
    bound = Condition("PodScheduled", "True", last_transition_time="2026-11-18T09:59:00Z")
    return evolve(pod, status=evolve(pod.status, conditions=(bound,)))


def states(pod: Pod) -> dict[str, str]:
    return {condition.type: condition.status for condition in pod.status.conditions}


def test_a_ready_worker_is_a_ready_pod() -> None:
    pod = evolve(scheduled(), status=running_status(scheduled(), READY, NOW))

    assert states(pod) == {"PodScheduled": "True", "Initialized": "True", "ContainersReady": "True", "Ready": "True"}
    assert pod.status.phase == "Running"
    assert [status.ready for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)] == [
        True,
        True,
    ]


def test_the_same_worker_gives_the_same_status_at_any_time() -> None:
    pod = evolve(scheduled(), status=running_status(scheduled(), READY, NOW))

    assert running_status(pod, READY, LATER) == pod.status


def test_the_program_waits_for_the_sidecar() -> None:
    status = running_status(scheduled(), WorkerView(sidecar=RUNNING), NOW)

    waiting = status.container_statuses[0].state.waiting
    assert waiting is not None
    assert (status.phase, waiting.reason) == ("Pending", "PodInitializing")


def test_a_pod_is_not_ready_from_the_end_of_its_program_on() -> None:
    pod = evolve(scheduled(), status=running_status(scheduled(), READY, NOW))
    ended = Observed(ContainerState(terminated=ContainerStateTerminated(137)), restarts=1)

    status = running_status(pod, evolve(READY, program=ended), LATER)

    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.last_transition_time) == ("False", "2026-11-18T10:01:00Z")
    assert ready.message == "containers with unready status: [serverless-sidecar runtime-worker]"
    assert status.phase == "Running"


def test_a_refused_pod_says_why_and_has_not_failed() -> None:
    status = refused_status(scheduled(), "command: no", NOW)

    waiting = status.container_statuses[0].state.waiting
    assert waiting is not None
    assert (status.phase, waiting.reason, waiting.message) == ("Pending", "CreateContainerConfigError", "command: no")


def test_the_next_runner_counts_a_restart_of_what_ran() -> None:
    running = running_status(scheduled(), READY, NOW)
    waiting = refused_status(scheduled(), "command: no", NOW)

    assert starts_before(running.container_statuses) == 1
    assert starts_before(waiting.container_statuses) == 0
    assert starts_before(()) == 0
