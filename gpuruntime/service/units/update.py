"""Updating an active unit: everything but its envelope, which never changes."""

from typing import Any, Final

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import is_reserved
from gpuruntime.api.operation import UPDATE_GPU_UNIT
from gpuruntime.meta import EMPTY, FrozenDict, freeze, known_fields
from gpuruntime.schema import Violation, violations
from gpuruntime.service.objects.admission import label_violations, raise_if_any
from gpuruntime.service.objects.update import UpdateObjectHandler, merge, patched

__all__ = ["UNIT_UPDATE", "unit_patch"]


def unit_patch(unit: GPUUnit, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    """The merge patch for a change of spec and labels; EMPTY if nothing would differ.

    Labels are replaced as a whole, except for the product's own. A primary port that the change does not name, and that
    is not among the ports any more, is reset, so that the first port is primary.

    Raises:
        InvalidRequestError: the unit would become invalid.
    """
    asked = change.get("spec", EMPTY)
    spec = patched(unit.spec, asked)
    access = asked.get("access", EMPTY)
    left_open = access is not None and "primaryPort" not in access
    if left_open and spec.access.primary_port not in {port.name for port in spec.template.ports}:
        spec = evolve(spec, access=evolve(spec.access, primary_port=None))
        change = freeze(change | {"spec": asked | {"access": access | {"primaryPort": None}}})
    before, labels = unit.metadata.labels, change.get("metadata", EMPTY).get("labels")
    found = [*violations(spec, GPUUnitSpec), *label_violations(labels or EMPTY)]
    if spec.image is None:
        found.append(Violation("image", "an image", "null"))
    raise_if_any(found)
    dropped = {} if labels is None else {key: None for key in before if key not in labels and not is_reserved(key)}
    relabelled = {**dropped, **(labels or EMPTY)}
    if known_fields(spec) == known_fields(unit.spec) and merge(before, relabelled) == before:
        return EMPTY
    patch: FrozenDict[str, Any] = freeze(change | ({"metadata": {"labels": relabelled}} if relabelled else {}))
    return patch


UNIT_UPDATE: Final = UpdateObjectHandler(UPDATE_GPU_UNIT, GPUUnit, unit_patch)
"""Executes update_gpu_unit operations."""
