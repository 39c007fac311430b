"""The next step of a resize, as a pure function of the claim, its volume and the pods that use it.

| the claim asks for | volume | fault | then |
|---|---|---|---|
| no more than it has | any | any | the marks of an earlier resize are removed |
| more | smaller | refuse | condition ControllerResizeError, with the words of the refusal |
| more | smaller | stall | condition Resizing, and no progress |
| more | smaller | none | the capacity of the volume is raised |
| more | smaller | restart | the same, and the volume names the pods that run with it now |
| more | large enough | restart | condition FileSystemResizePending, until a pod runs that the volume does not name |
| more | large enough | any other | the capacity of the claim is raised, and the marks are removed |

Statuses and conditions have the names that Kubernetes' own resizer writes.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from attrs import evolve, frozen

from gpuruntime.kube import MergePatch
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim, PersistentVolumeClaimStatus
from gpuruntime.meta import (
    Condition,
    DynamicObject,
    FrozenDict,
    Quantity,
    parse_quantity,
    remove_condition,
    set_condition,
)
from gpuruntime.testing.volumes.faults import ResizeFault

__all__ = ["PodUse", "RaiseVolume", "WriteStatus", "next_step"]

_STORAGE: Final = "storage"
_USED_BY: Final = "testing.gpuruntime.local/used-before-resize"
_RESIZING, _PENDING, _ERROR = "Resizing", "FileSystemResizePending", "ControllerResizeError"
_MARKS: Final = (_RESIZING, _PENDING, _ERROR)
_WAITS: Final = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."


@frozen
class PodUse:
    """A pod and the PersistentVolumeClaims that it names."""

    namespace: str
    uid: str
    phase: str
    claims: tuple[str, ...]


@frozen
class RaiseVolume:
    """Raise the capacity of the volume by this patch."""

    patch: MergePatch


@frozen
class WriteStatus:
    """Write this status of the claim; `refusal` is the reason of a refusal, for an event."""

    status: PersistentVolumeClaimStatus
    refusal: str = ""


def next_step(
    claim: PersistentVolumeClaim,
    volume: DynamicObject,
    pods: Iterable[PodUse],
    fault: ResizeFault | None,
    now: datetime,
) -> RaiseVolume | WriteStatus:
    """The next step for a bound claim; the status that it has already if there is nothing to do."""
    status = claim.status
    wanted = _size(claim.spec.resources.requests if claim.spec.resources else {})
    if wanted <= _size(status.capacity):
        return WriteStatus(_unmarked(status))
    effect = None if fault is None or wanted <= parse_quantity(fault.above) else fault.effect
    if _size(volume.body["spec"]["capacity"]) < wanted:
        if fault is not None and effect == "refuse":
            return WriteStatus(_marked(status, wanted, _ERROR, "Infeasible", fault.message, now), fault.message)
        if effect == "stall":
            return WriteStatus(_marked(status, wanted, _RESIZING, "InProgress", "", now))
        used_by = ",".join(pod.uid for pod in pods if pod.phase == "Running") if effect == "restart" else None
        return RaiseVolume(_raised(volume, wanted, used_by))
    named = volume.metadata.annotations.get(_USED_BY, "").split(",")
    if effect == "restart" and not any(pod.phase == "Running" and pod.uid not in named for pod in pods):
        return WriteStatus(_marked(status, wanted, _PENDING, "Pending", _WAITS, now))
    return WriteStatus(evolve(_unmarked(status), capacity=status.capacity | {_STORAGE: str(wanted)}))


def _size(resources: Any) -> Quantity:
    return parse_quantity(resources.get(_STORAGE, "0"))


def _raised(volume: DynamicObject, wanted: Quantity, used_by: str | None) -> MergePatch:
    patch = MergePatch(
        {"metadata": {"annotations": {_USED_BY: used_by}}, "spec": {"capacity": {_STORAGE: str(wanted)}}}
    )
    return patch.locked(volume.metadata.resource_version)


def _marked(
    status: PersistentVolumeClaimStatus, wanted: Quantity, mark: str, state: str, message: str, now: datetime
) -> PersistentVolumeClaimStatus:
    """The status with one of the marks of a resize, and no other."""
    conditions = status.conditions
    for other in _MARKS:
        conditions = conditions if other == mark else remove_condition(conditions, other)
    phase = f"NodeResize{state}" if mark == _PENDING else f"ControllerResize{state}"
    return evolve(
        status,
        conditions=set_condition(conditions, Condition(mark, "True", mark, message), now),
        allocated_resources=status.allocated_resources | {_STORAGE: str(wanted)},
        allocated_resource_statuses=status.allocated_resource_statuses | {_STORAGE: phase},
    )


def _unmarked(status: PersistentVolumeClaimStatus) -> PersistentVolumeClaimStatus:
    conditions = status.conditions
    for mark in _MARKS:
        conditions = remove_condition(conditions, mark)
    statuses = status.allocated_resource_statuses
    kept = FrozenDict({name: state for name, state in statuses.items() if name != _STORAGE})
    return evolve(status, conditions=conditions, allocated_resource_statuses=kept)
