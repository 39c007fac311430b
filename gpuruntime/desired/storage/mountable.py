"""Whether a unit can mount a storage now, and if not, why."""

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.reasons import READY_CONDITION
from gpuruntime.meta import find_condition

__all__ = ["not_mountable"]


def not_mountable(name: str, storage: GPUStorage | None) -> str:
    """Why no pod may mount the storage of this name, "" if one may.

    Its Ready condition decides, which its reconciler keeps true while the volume is there and filled; a storage that is
    being deleted takes no new pods.
    """
    if storage is None:
        return f"Storage {name} does not exist: create it, or remove it from storageMounts."
    if storage.metadata.deletion_timestamp is not None:
        return f"Storage {name} is being deleted: remove it from storageMounts, or create it again when it is gone."
    ready = find_condition(storage.status.conditions, READY_CONDITION)
    if ready is None:
        return f"Storage {name} is not ready: it was just created."
    if ready.status != "True":
        return f"Storage {name} is not ready ({ready.reason}): {ready.message or 'no message'}"
    return ""
