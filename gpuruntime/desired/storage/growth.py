"""Changes of a volume that exists: its size, and its VolumeAttributesClass.

A volume grows only while it is bound and its StorageClass allows it; else the API server would refuse, so nothing is
sent. A size that was raised can be lowered again to what is above the capacity. The storage stays Ready meanwhile.

| size in the spec | volume | then |
|---|---|---|
| that of the PersistentVolumeClaim | as large, or larger | nothing |
| that of the PersistentVolumeClaim | smaller | Growing; NeedsRestart if only the file system is left; or Refused |
| above it | not bound, or a class without expansion | Refused, until one of the two changes |
| above it | bound | the request is patched; Refused with the words of the API server if it refuses |
| below it | smaller than the size | the request is patched |
| below it | not smaller than the size | Refused: a volume cannot shrink |
"""

from typing import Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorageSpec, ResizeStatus
from gpuruntime.desired.storage.claim import STORAGE, is_bound
from gpuruntime.desired.storage.rendering import StorageClassFacts
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import find_condition, parse_quantity

__all__ = ["GROWING", "NEEDS_RESTART", "REFUSED", "Growth", "growth_of"]

GROWING: Final = "Growing"
NEEDS_RESTART: Final = "NeedsRestart"
REFUSED: Final = "Refused"
_INFEASIBLE: Final = frozenset({"ControllerResizeInfeasible", "NodeResizeInfeasible"})
_ERRORS: Final = ("ControllerResizeError", "NodeResizeError")


@frozen
class Growth:
    """What to patch, and what the status says if nothing is patched.

    Args:
        request: the new request, None if it stays.
        attributes_class: the new VolumeAttributesClass, None if it stays.
        status: the progress of the growth, None if there is none.
    """

    request: int | str | None = None
    attributes_class: str | None = None
    status: ResizeStatus | None = None


def growth_of(spec: GPUStorageSpec, claim: PersistentVolumeClaim, known: StorageClassFacts | None) -> Growth:
    """The growth of a volume; `known` is the class of the PersistentVolumeClaim, None if there is none."""
    resources = claim.spec.resources
    wanted = parse_quantity(spec.size)
    request = parse_quantity("0" if resources is None else resources.requests.get(STORAGE, "0"))
    capacity = parse_quantity(claim.status.capacity.get(STORAGE, "0"))
    attributes = spec.volume_attributes_class_name
    if attributes == claim.spec.volume_attributes_class_name:
        attributes = None
    if wanted == request:
        return Growth(None, attributes, _progress(claim) if is_bound(claim) and request > capacity else None)
    refusal = _refusal(claim, known, is_larger=wanted > request, fits=wanted > capacity)
    if refusal:
        message = f"spec.size {spec.size} instead of {request}: {refusal}"
        return Growth(None, attributes, ResizeStatus(REFUSED, message))
    return Growth(spec.size, attributes)


def _refusal(claim: PersistentVolumeClaim, known: StorageClassFacts | None, *, is_larger: bool, fits: bool) -> str:
    """Why the API server would refuse another request, "" if it would not."""
    if not is_bound(claim):
        return "the volume is not bound yet, and Kubernetes changes its size only afterwards"
    if not is_larger:
        return "" if fits else "a volume cannot shrink to its capacity or below"
    name = claim.spec.storage_class_name or "(none)"
    if known is None:
        return f"StorageClass {name} does not exist, so nothing can expand the volume"
    return "" if known.is_expandable else f"StorageClass {name} does not set allowVolumeExpansion"


def _progress(claim: PersistentVolumeClaim) -> ResizeStatus:
    conditions = claim.status.conditions
    pending = find_condition(conditions, "FileSystemResizePending")
    if pending is not None and pending.status == "True":
        words = pending.message or "the file system grows when a pod mounts the volume next"
        return ResizeStatus(NEEDS_RESTART, words)
    errors = [find_condition(conditions, name) for name in _ERRORS]
    words = "; ".join(error.message or error.reason for error in errors if error is not None and error.status == "True")
    if claim.status.allocated_resource_statuses.get(STORAGE) in _INFEASIBLE:
        return ResizeStatus(REFUSED, words or "the provisioner cannot make the volume this large")
    return ResizeStatus(GROWING, words or None)
