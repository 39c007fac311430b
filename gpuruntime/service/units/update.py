"""Updating an active unit: everything but its envelope, which never changes.

Storages that the unit does not mount yet are locked before the update is written. Those that it does not mount any more
are freed by the lock reaper, when the old pod has ended.
"""

from typing import Any, Final

from attrs import evolve, frozen

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import is_reserved
from gpuruntime.api.operation import UPDATE_GPU_UNIT
from gpuruntime.desired.storage.locks import Lock, holder_name
from gpuruntime.kube import Client
from gpuruntime.meta import EMPTY, FrozenDict, freeze, known_fields
from gpuruntime.schema import Violation, violations
from gpuruntime.service.objects.admission import label_violations, raise_if_any
from gpuruntime.service.objects.update import UpdateObjectHandler, merge, patched
from gpuruntime.service.operations.lease import OperationLease
from gpuruntime.service.storage.locks import LockedByAnotherError
from gpuruntime.service.units.mounts import added_mounts, check_free, lock_mounts, storage_in_use, unlock_mounts

__all__ = ["UNIT_UPDATE", "MountGuard", "unit_patch"]


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


@frozen
class MountGuard:
    """Locks the storages that an update adds to a unit."""

    async def check(self, client: Client, current: GPUUnit, patch: FrozenDict[str, Any]) -> None:
        """See `UpdateGuard`."""
        spec = _changed(current, patch)
        added = added_mounts(current, spec)
        await check_free(client, current.metadata.namespace, spec, added, holder_name(current))

    async def acquire(self, lease: OperationLease, current: GPUUnit, patch: FrozenDict[str, Any]) -> None:
        """See `UpdateGuard`."""
        spec = _changed(current, patch)
        added, lock = added_mounts(current, spec), _lock(lease, current)
        try:
            await lock_mounts(lease.client, current.metadata.namespace, spec, added, lock, lease.now())
        except LockedByAnotherError as error:
            raise storage_in_use(error.storage.key, error.lock) from error

    async def release(self, lease: OperationLease, current: GPUUnit, patch: FrozenDict[str, Any]) -> None:
        """See `UpdateGuard`."""
        added = added_mounts(current, _changed(current, patch))
        await unlock_mounts(lease.client, current.metadata.namespace, added, _lock(lease, current))


def _changed(unit: GPUUnit, patch: FrozenDict[str, Any]) -> GPUUnitSpec:
    return patched(unit.spec, patch.get("spec", EMPTY))


def _lock(lease: OperationLease, unit: GPUUnit) -> Lock:
    """The lock of the Operation for the unit, until the unit's reconciler makes it the unit's own."""
    operation = lease.operation.metadata
    return evolve(Lock.of(unit), operation=operation.name, operation_uid=operation.uid)


UNIT_UPDATE: Final = UpdateObjectHandler(UPDATE_GPU_UNIT, GPUUnit, unit_patch, MountGuard())
"""Executes update_gpu_unit operations."""
