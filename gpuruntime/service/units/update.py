"""Active units changed on request: everything but the envelope, which never changes."""

from typing import Any, Final

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import UPDATE_GPU_UNIT
from gpuruntime.desired.known_fields import known_fields
from gpuruntime.meta import EMPTY, FrozenDict, freeze
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.objects.merge_patch import changed, merged
from gpuruntime.service.objects.spec_checks import is_reserved, label_problems, unit_problems
from gpuruntime.service.objects.update import ObjectChange

__all__ = ["UNIT_CHANGE", "complete_unit_change"]


def complete_unit_change(unit: GPUUnit, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    """The whole merge patch for a change of spec and labels; EMPTY if nothing would differ.

    Labels are replaced as a whole, but for those of the product. A primary port that the change does not name, and that
    is not among the ports any more, gives way to the first port.

    Raises:
        InvalidRequestError: the unit would be an impossible one.
    """
    asked = change.get("spec", EMPTY)
    spec = changed(unit.spec, asked)
    access = asked.get("access", EMPTY)
    left_open = access is not None and "primaryPort" not in access
    if left_open and spec.access.primary_port not in {port.name for port in spec.template.ports}:
        spec = evolve(spec, access=evolve(spec.access, primary_port=None))
        change = freeze(change | {"spec": asked | {"access": access | {"primaryPort": None}}})
    before, labels = unit.metadata.labels, change.get("metadata", EMPTY).get("labels")
    problems = unit_problems(spec) + label_problems(labels or EMPTY)
    if spec.image is None:
        problems.append("image: expected an image, got null")
    if problems:
        raise InvalidRequestError(tuple(problems))
    dropped = {} if labels is None else {key: None for key in before if key not in labels and not is_reserved(key)}
    relabelled = {**dropped, **(labels or EMPTY)}
    if known_fields(spec) == known_fields(unit.spec) and merged(before, relabelled) == before:
        return EMPTY
    patch: FrozenDict[str, Any] = freeze(change | ({"metadata": {"labels": relabelled}} if relabelled else {}))
    return patch


UNIT_CHANGE: Final = ObjectChange(UPDATE_GPU_UNIT, GPUUnit, complete_unit_change)
"""The work of an update_gpu_unit operation."""
