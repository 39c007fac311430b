"""The status of a pod whose processes run on this machine, as a kubelet would write it. Pure."""

from datetime import datetime
from typing import Final

from attrs import evolve, field, frozen

from gpuruntime.kube.builtin.containers import Container, ContainerState, ContainerStateWaiting, ContainerStatus
from gpuruntime.kube.builtin.pods import Pod, PodStatus
from gpuruntime.meta import Condition, find_condition
from gpuruntime.meta.timestamps import format_seconds
from gpuruntime.testing.local_workers.kept_process import Observed

__all__ = ["WorkerView", "refused_status", "running_status", "starts_before"]

_BAD_CONFIG: Final = "CreateContainerConfigError"
_INITIALIZING: Final = ContainerState(waiting=ContainerStateWaiting("PodInitializing"))


@frozen
class WorkerView:
    """What is known of a worker: its processes, whether the sidecar serves, and whether it says that both are ready.

    `has_started` is whether the program has been healthy since its last start, `problem` what prevents the start.
    """

    sidecar: Observed = field(default=Observed())
    program: Observed = field(default=Observed())
    is_serving: bool = False
    has_started: bool = False
    is_ready: bool = False
    problem: str = ""


def running_status(pod: Pod, view: WorkerView, now: datetime) -> PodStatus:
    """The status of a pod with a worker. The same view gives the same status, whatever the time is."""
    is_ready = view.is_ready and view.sidecar.is_running and view.program.is_running
    sidecars = tuple(
        _container_status(container, view.sidecar, started=view.is_serving, ready=is_ready)
        for container in pod.spec.init_containers
    )
    programs = tuple(
        _container_status(container, _program(view), started=view.has_started, ready=view.has_started)
        for container in pod.spec.containers
    )
    is_initialized = view.is_serving or view.program.is_running or view.program.restarts > 0
    unready = "" if is_ready else f"containers with unready status: {_unready((*sidecars, *programs))}"
    changed = _with_condition(pod.status, "Initialized", is_initialized, "ContainersNotInitialized", "", now)
    for type_ in ("ContainersReady", "Ready"):
        changed = _with_condition(changed, type_, is_ready, "ContainersNotReady", unready, now)
    return evolve(
        changed,
        phase="Running" if view.program.is_running or view.program.restarts > 0 else "Pending",
        message=view.problem or None,
        start_time=pod.status.start_time or format_seconds(now),
        init_container_statuses=sidecars,
        container_statuses=programs,
    )


def refused_status(pod: Pod, problem: str, now: datetime) -> PodStatus:
    """The status of a pod that is not run here, with the reason of containers that cannot be made.

    It is no failed pod: its owner would replace that at once, for ever.
    """
    state = ContainerState(waiting=ContainerStateWaiting(_BAD_CONFIG, problem))
    changed = pod.status
    for type_ in ("ContainersReady", "Ready"):
        changed = _with_condition(changed, type_, False, "ContainersNotReady", problem, now)
    return evolve(
        changed,
        phase="Pending",
        message=problem,
        start_time=pod.status.start_time or format_seconds(now),
        container_statuses=tuple(
            ContainerStatus(container.name, image=container.image or "", state=state)
            for container in pod.spec.containers
        ),
    )


def starts_before(statuses: tuple[ContainerStatus, ...]) -> int:
    """How often the container was started before, for a runner that takes over the pod of another."""
    known = next(iter(statuses), None)
    if known is None or (known.state.running is None and known.state.terminated is None):
        return 0 if known is None else known.restart_count
    return known.restart_count + 1


def _program(view: WorkerView) -> Observed:
    waits = view.program.state.waiting
    is_first = view.program.restarts == 0 and waits is not None and waits.reason == "ContainerCreating"
    return evolve(view.program, state=_INITIALIZING) if is_first and not view.is_serving else view.program


def _container_status(container: Container, observed: Observed, *, started: bool, ready: bool) -> ContainerStatus:
    return ContainerStatus(
        container.name,
        ready=ready and observed.is_running,
        started=started and observed.is_running,
        restart_count=observed.restarts,
        image=container.image or "",
        state=observed.state,
        last_state=observed.last_state,
    )


def _unready(statuses: tuple[ContainerStatus, ...]) -> str:
    return f"[{' '.join(status.name for status in statuses if not status.ready)}]"


def _with_condition(status: PodStatus, type_: str, holds: bool, reason: str, message: str, now: datetime) -> PodStatus:
    """The status with a condition. `set_condition` is not for pods: theirs have a reason only while they are False."""
    wanted = "True" if holds else "False"
    old = find_condition(status.conditions, type_)
    moved = old is None or old.status != wanted
    new = Condition(
        type=type_,
        status="True" if holds else "False",
        reason="" if holds else reason,
        message=None if holds or not message else message,
        last_transition_time=format_seconds(now) if moved or old is None else old.last_transition_time,
        observed_generation=None if old is None else old.observed_generation,
    )
    others = tuple(condition for condition in status.conditions if condition.type != type_)
    if old is None:
        return evolve(status, conditions=(*status.conditions, new))
    place = status.conditions.index(old)
    return evolve(status, conditions=(*others[:place], new, *others[place:]))
